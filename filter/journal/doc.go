// Package journal keeps what a plugin context has to tell the admin stage: the last decisions that were no plain
// admission, how long requests waited, and the names of tenants, of which records have only hashes.
//
// It guarantees:
//
//   - All of it is bounded, whatever clients send. Writing to it makes no host call.
//   - Nobody hears of it unless the admin stage asks: then the context writes a report to shared data, once for each
//     question.
//   - A message can be lost, and anybody can send one. A lost one costs an answer some milliseconds, and a forged one
//     costs the context a report.
//
// journal.go has the journal, event.go an event and its bytes, waits.go the waits, tenants.go the names. report.go says
// how a report is encoded. places.go is the table of those who report, and reporter.go what one of them does when it is
// asked.
package journal
