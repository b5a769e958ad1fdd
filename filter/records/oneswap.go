//go:build oneswap

package records

// With -tags oneswap the module serves tests of contention: each lost swap ends a turn. So few workers on few cores leave
// to later turns what otherwise only many do.
const maxSwaps = 1
