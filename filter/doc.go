// Package filter is the wasm shell around package admission: host callbacks become operations on records, and their
// effects become host calls. It holds no policy.
//
// One plugin context is one configuration in one VM. It has a worker incarnation of its own: a seat in the domain's
// worker table, a column in the records, a shared queue on which it is told of grants. So contexts of older
// configurations drain by themselves while newer ones run beside them, and what a context knows never has to be shared
// with another one but through the records.
//
// A request passes through stream.go: identified (identity.go), then granted, queued or refused by each pool in turn
// (acquire.go), resumed or answered (reply.go), and released when the stream ends. store.go swaps records, place.go finds a
// key's record, worker.go keeps the lease, tick.go does what needs time.
package filter
