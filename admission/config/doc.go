// Package config reads a plugin configuration: strict JSON, as docs/configuration.md describes it, into values that are valid
// by construction. What is refused is refused with the field, the value and what is allowed.
//
// rules.go checks a tree of JSON values against tables of rules, which are data: they cost the wasm module far less than code
// that does the same. pools.go, identity.go and patterns.go have the tables and store what they accept.
package config
