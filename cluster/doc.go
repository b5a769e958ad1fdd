// Package cluster divides a limit among the replicas of a fleet.
//
// A replica asks for permits with a lease call. For each key it says what it has (keep), what it could use (wants) and
// what its configuration says (limit). The answer says how many permits it may use (grant), how many are its fair share
// (target), and how many it may use when it loses contact (safe). What this package guarantees, for the grants whose
// leases have not ended:
//
//   - S1: their sum is at most the limit, unless replicas assert more than that, or the limit was lowered. The excess
//     only shrinks.
//   - S2: a grant is never below keep, which the replica may be using.
//   - S3: a grant grows only out of permits that nobody has. So a share moves in two steps: one replica gives up what
//     is above its target, then another one gets it.
//   - S4: targets add up to at most the limit. They are max-min fair: nobody who wants more than a permit above another
//     one's share gets less than that.
//   - S5: the same claims give the same targets, and a claim that changes by one moves one permit.
//   - S6: what a call has changed, it changes once. A repeated call gets the first answer, a late one gets an error.
//
// Divide has the arithmetic and Ledger the rules around it. Both are pure: time comes in as a number. Package store
// carries out the same rules in Redis, in one script for each call. A test compares the two. docs/fleet.md says what
// replicas make of the answers, and docs/rationale.md why the rules are these.
package cluster
