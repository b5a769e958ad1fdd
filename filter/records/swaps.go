//go:build !oneswap

package records

// maxSwaps is how often a turn tries to store something against other workers' swaps. Every swap lost is one that
// another worker has won, so the next turn goes on trying: contention is no failure. docs/rationale.md says why 3.
const maxSwaps = 3
