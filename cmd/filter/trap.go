//go:build trap

package main

import (
	"github.com/tetratelabs/proxy-wasm-go-sdk/proxywasm/types"

	"github.com/headgate/headgate/filter"
	"github.com/headgate/headgate/filter/abi"
)

// With -tags trap the module serves a test of crashes. A request with trapHeader ends the VM, as a fault in Go's runtime
// would: no recover can prevent it. The shipped module is built without the tag. A test checks that it does not contain
// the header's name.

const trapHeader = "x-headgate-test-trap"

func init() { abi.SetVMContext(fragileVM{filter.New()}) }

type fragileVM struct{ types.VMContext }

func (v fragileVM) NewPluginContext(id uint32) types.PluginContext {
	return fragilePlugin{v.VMContext.NewPluginContext(id)}
}

type fragilePlugin struct{ types.PluginContext }

func (p fragilePlugin) NewHttpContext(id uint32) types.HttpContext {
	return fragileStream{p.PluginContext.NewHttpContext(id)}
}

type fragileStream struct{ types.HttpContext }

func (s fragileStream) OnHttpRequestHeaders(n int, end bool) types.Action {
	pairs, _ := abi.RequestHeaders()
	for c := pairs.Cursor(); c.Next(); {
		if string(c.Name) == trapHeader {
			select {} // no goroutine can run any more, so the runtime aborts, and the host ends the VM
		}
	}
	return s.HttpContext.OnHttpRequestHeaders(n, end)
}
