// Package request reads what a client sends: its path, its deadline and its body. It also reads when a provider says
// that a client may try again. All of this may be hostile. So every function is bounded in time and memory, and none
// panics.
//
// Some paths and bodies can be understood in several ways. None of these ways leads round a limit: a path is governed
// if it is governed in any reading, and a body that could name two models names none.
package request
