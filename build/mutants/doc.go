// Command mutants shows what the tests would not notice. It changes the code of admission and filter in one place at a
// time, as a programmer might by mistake, and runs the quick tests on each change. A change that they let pass is a
// survivor: a test is missing, or the change breaks nothing. docs/mutants.md has the last run and what became of its
// survivors.
//
// It works in a copy of the tree, never in the tree itself. Which changes it makes follows from the seed: a run with
// more changes makes those of a run with fewer, too.
//
//	go run ./build/mutants [-n 150] [-seed 1] [-files PATTERN] [-timeout 5m] [-slow] [-resume]
//
// change.go has the changes, pick.go the choice among them, tree.go the copy, trial.go what is run on a change,
// session.go the run, log.go its results.
package main
