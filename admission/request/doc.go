// Package request reads what a client sends: paths, deadlines, bodies, and what a provider says about coming back. All of it
// is hostile: every function is bounded in time and memory, and none panics.
//
// A path or body that readers could understand in different ways is read so that no reading escapes a limit: a path is
// governed if any reading of it is, and a body that could name two models names none.
package request
