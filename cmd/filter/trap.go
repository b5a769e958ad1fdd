//go:build trap

package main

import (
	"github.com/tetratelabs/proxy-wasm-go-sdk/proxywasm/types"

	"github.com/headgate/headgate/filter"
	"github.com/headgate/headgate/filter/abi"
)

// With -tags trap the module serves tests of crashes. A request with trapHeader ends the VM, as a fault in Go's runtime
// would: no recover can prevent it. One with panicHeader panics in the callback that the header names, as a fault of
// the filter's own would. The shipped module is built without the tag. A test checks that it does not contain the
// headers' names.

const (
	trapHeader  = "x-headgate-test-trap"
	panicHeader = "x-headgate-test-panic"
)

func init() { abi.SetVMContext(fragileVM{filter.New()}) }

type fragileVM struct{ types.VMContext }

func (v fragileVM) NewPluginContext(id uint32) types.PluginContext {
	return fragilePlugin{v.VMContext.NewPluginContext(id)}
}

type fragilePlugin struct{ types.PluginContext }

func (p fragilePlugin) NewHttpContext(id uint32) types.HttpContext {
	return &fragileStream{HttpContext: p.PluginContext.NewHttpContext(id)}
}

type fragileStream struct {
	types.HttpContext
	panicsIn string // a callback: headers, body, done
}

func (s *fragileStream) OnHttpRequestHeaders(n int, end bool) types.Action {
	pairs, _ := abi.RequestHeaders()
	for c := pairs.Cursor(); c.Next(); {
		switch string(c.Name) {
		case trapHeader:
			select {} // no goroutine can run any more, so the runtime aborts, and the host ends the VM
		case panicHeader:
			s.panicsIn = string(c.Value)
		}
	}
	action := s.HttpContext.OnHttpRequestHeaders(n, end)
	s.mayPanic("headers")
	return action
}

func (s *fragileStream) OnHttpRequestBody(n int, end bool) types.Action {
	s.mayPanic("body")
	return s.HttpContext.OnHttpRequestBody(n, end)
}

func (s *fragileStream) OnHttpStreamDone() {
	s.mayPanic("done")
	s.HttpContext.OnHttpStreamDone()
}

// Owes implements abi.Debtor, as the filter's own contexts do.
func (p fragilePlugin) Owes() { p.PluginContext.(abi.Debtor).Owes() }

// Owes implements abi.Debtor.
func (s *fragileStream) Owes() { s.HttpContext.(abi.Debtor).Owes() }

// mayPanic panics the first time that it is asked in the callback that the request's header has named.
func (s *fragileStream) mayPanic(callback string) {
	if s.panicsIn == callback {
		s.panicsIn = ""
		panic("asked for by a test")
	}
}

// Recovered implements abi.Recoverer, as the filter's own stream does.
func (s *fragileStream) Recovered(what string) types.Action {
	return s.HttpContext.(abi.Recoverer).Recovered(what)
}
