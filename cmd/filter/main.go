// Command filter is the wasm module: build/headgate.wasm.
package main

import (
	"github.com/headgate/headgate/filter"
	"github.com/headgate/headgate/filter/abi"
)

func init() { abi.SetVMContext(filter.New()) }

// main is never run: a reactor module is initialised, not started.
func main() {}
