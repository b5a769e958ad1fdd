// Package clustersim runs a fleet in virtual time: replicas with package fleet, services with package cluster, a
// network that loses, delays, reorders and repeats, and a Redis that fails. A checker watches from outside:
//
//   - what the replicas with a lease may use is at most the limit, but for a debt: what a replica ran on when its lease
//     had ended and then asserted again, what was granted in writes that a failover lost, and by how much the limit was
//     lowered. A debt only drains;
//   - the ledger counts at least what a replica with a lease may use;
//   - when all is quiet, the whole limit is in use where it is wanted, in fair shares.
//
// A seed gives the same run again.
package clustersim
