// Package rig runs a real Envoy with Headgate's wasm between a scripted upstream and clients that can leave in any way,
// for tests and benchmarks.
//
// What it guarantees: an Envoy it started is ended with the test binary; a test's listener, clusters, pools and domain
// are its own, so tests share one Envoy process without sharing a count; an Envoy that dies or a VM that traps fails
// the test in which it happens, with the log. Nothing in it waits for a fixed time: every wait is for a stated
// condition, bounded.
//
// A test begins with an Envoy (Shared or Start), gives it a listener of its own (New), sends requests (Env.Send,
// Env.Do, Env.H2, Env.Dial) whose Script steers the upstream, and ends with Env.DrainCheck.
package rig
