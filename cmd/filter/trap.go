//go:build trap

package main

import (
	"github.com/tetratelabs/proxy-wasm-go-sdk/proxywasm/types"

	"github.com/headgate/headgate/filter"
	"github.com/headgate/headgate/filter/abi"
)

// With -tags trap the module is a crash test's: a request with trapHeader ends the VM as a fault in the runtime would,
// beyond any recover. What is shipped is built without the tag, and a test looks for the header's name in it.

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
			select {} // nobody else can ever run: the runtime gives up, and the host's VM with it
		}
	}
	return s.HttpContext.OnHttpRequestHeaders(n, end)
}
