// Package filter is the wasm shell around package admission. It turns the host's callbacks into operations on records,
// and the effects of operations into calls to the host. It has no policy of its own.
//
// One plugin context is one configuration in one VM. Each context is a worker of its own: it has a seat in the domain's
// worker table, a column in the records, and a shared queue in which other workers tell it of grants. So the context of
// an older configuration drains while a newer one runs beside it. Two contexts share nothing but the records.
//
// The files, in the order in which a request passes them:
//
//	plugin.go    a plugin context: its configuration and its callbacks
//	stream.go    a request, and the callback in which it begins
//	identity.go  whose request it is, and which keys of which pools it needs
//	lookups.go   the headers and properties that a configuration reads
//	handover.go  what the invocation stage tells the attempts of a request
//	body.go      the search for the model in a request's body
//	acquire.go   asking the pools for permits
//	wait.go      the wait in a queue, from its beginning to its end
//	reply.go     refusing a request, or letting it go on
//	ending.go    how a request was answered, and how it ended
//	release.go   giving the permits back
//	events.go    what the journal is told
//	timer.go     when the host calls the context next
//	metrics.go   the metrics
//	text.go      what is kept of a request's headers
//	adminstage.go  a plugin context of the stage admin
//
// Package records, below this one, keeps the records: it knows keys, tickets and permits, and no streams. Package
// journal remembers what the admin stage may ask for, and package admin is that stage. Package abi is the binding to
// the host.
package filter
