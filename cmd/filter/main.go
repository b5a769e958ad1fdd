// Command filter is the wasm module: build/headgate.wasm.
package main

import (
	"github.com/headgate/headgate/filter"
	"github.com/headgate/headgate/filter/abi"
)

func init() { abi.SetVMContext(filter.New()) }

// main never runs: the host initialises the module (init), and then only calls its exports.
func main() {}
