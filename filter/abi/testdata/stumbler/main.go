// Command stumbler is a filter on the binding that panics where it is told to, for the binding's tests.
package main

import (
	"github.com/tetratelabs/proxy-wasm-go-sdk/proxywasm/types"

	"github.com/headgate/headgate/filter/abi"
)

func init() { abi.SetVMContext(&vm{}) }

func main() {}

type vm struct{ types.DefaultVMContext }

func (*vm) NewPluginContext(id uint32) types.PluginContext { return &plugin{} }

type plugin struct {
	types.DefaultPluginContext
	where string
}

func (p *plugin) OnPluginStart(int) types.OnPluginStartStatus {
	c, _ := abi.PluginConfiguration()
	p.where = string(c)
	abi.SetTick(10)
	p.stumble("configure")
	return types.OnPluginStartStatusOK
}

func (p *plugin) OnTick() { p.stumble("tick") }

func (p *plugin) NewHttpContext(uint32) types.HttpContext {
	p.stumble("create")
	return &stream{plugin: p}
}

type stream struct {
	types.DefaultHttpContext
	plugin *plugin
	size   int
}

func (s *stream) OnHttpRequestHeaders(int, bool) types.Action {
	pairs, _ := abi.RequestHeaders()
	for c := pairs.Cursor(); c.Next(); {
		s.size += len(c.Name) + len(c.Value)
		if string(c.Name) == "x-show" {
			abi.SetProperty("shown", c.Value)
		}
	}
	s.plugin.stumble("headers")
	return types.ActionContinue
}

func (s *stream) OnHttpRequestBody(int, bool) types.Action {
	s.plugin.stumble("body")
	return types.ActionContinue
}

func (s *stream) OnHttpStreamDone() { s.plugin.stumble("done") }

// Recovered pauses the stream, so that a test can tell the answer to a panic from the usual one.
func (s *stream) Recovered(string) types.Action { return types.ActionPause }

type stumbling struct{}

func (stumbling) Error() string { return "an error of its own" }

func (p *plugin) stumble(here string) {
	switch p.where {
	case here:
		var nothing *plugin
		_ = nothing.where
	case here + " bounds":
		b := []byte(here)
		_ = b[len(p.where)]
	case here + " string":
		panic("a string")
	case here + " error":
		panic(stumbling{})
	case here + " other":
		panic(7)
	}
}
