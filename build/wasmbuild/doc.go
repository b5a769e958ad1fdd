// Package wasmbuild builds the wasm module, for `make build` and for everything else that needs one built the same way.
//
// Half of the module is Go's runtime, and Envoy is not ready before V8 has compiled it. So three things that the module
// never uses are taken out of the runtime: edits.go has them. The runtime's own source stays as it is. `go build
// -overlay` reads the edited files in place of it. docs/rationale.md says what each edit is worth.
package wasmbuild
