// Package admin is the stage admin: it serves the state of all pools, live limits, events and the dashboard, to whoever
// may look at the private listener on which it runs.
//
// It guarantees:
//
//   - What it tells of a key is that key's record as it is: of all workers, and consistent in itself. It adds what the
//     workers report when they are asked: names of tenants, waits, events. A worker that does not report in 100 ms is
//     left out.
//   - It never holds a request of the gateway up, takes no seat, and asks for nothing while nobody asks it.
//   - Whatever requests contain, what it answers is valid JSON.
//   - Changes come from the page's own origin or from no page at all, and nothing is told beyond loopback unless the
//     configuration says so.
//
// stage.go has the stage and who waits for an answer, request.go one request, guard.go who may ask and what. state.go,
// limits.go and events.go have the answers, log.go the events of all workers, json.go the bytes.
package admin
