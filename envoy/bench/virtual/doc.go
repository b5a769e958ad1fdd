// Package virtual runs the built module on several workers that run at once, in virtual time. It shows what real time
// on a machine with few cores can't: how many swaps of one record get lost when 64 workers want it.
//
// What is modelled:
//
//   - Each worker is a thread with a processor of its own. It does one thing after the other, and each takes time:
//     Envoy's own work for a request and for its answer, each call of the host, and what the module does between two
//     calls ([Costs]).
//   - A call takes effect at its moment, and between two calls of one worker any number of others do theirs. So a swap
//     is lost exactly if another worker's set came between its get and its set. Nothing is drawn by lot but service
//     times and arrivals.
//   - What the module does between the get and the set of a record takes as long as it takes here, in wazero: the
//     median of the warm-up, in real time. That grows with the record, and shrinks when the module gets better. All
//     else is the same at each run.
//   - A message to another worker wakes it some time later, if it has nothing to do, and otherwise when it is its turn.
//     Ticks are seen each millisecond.
//
// What is not: that workers share processors, caches and the mutex of shared data, the garbage collector of a VM, and
// the network.
package virtual
