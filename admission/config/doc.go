// Package config reads a plugin configuration: strict JSON, as docs/configuration.md describes it. The values that it
// returns are valid by construction. An error names the field, the value, and what is allowed.
//
// json.go reads the text into a tree of values. rules.go checks the tree against tables of rules. The tables are data,
// which costs the wasm module far less than code that does the same. parse.go, pools.go, identity.go and patterns.go
// have the tables, and store what the rules accept. quote.go makes a value safe to show in an error.
package config
