package abi

import "github.com/tetratelabs/proxy-wasm-go-sdk/proxywasm/types"

// table holds the living contexts of this VM.
type table struct {
	vm      types.VMContext
	plugins map[uint32]types.PluginContext
	streams map[uint32]types.HttpContext
}

var contexts = table{plugins: map[uint32]types.PluginContext{}, streams: map[uint32]types.HttpContext{}}

func (t *table) create(id, parent uint32) {
	if t.vm == nil {
		return
	}
	if parent == 0 {
		t.plugins[id] = t.vm.NewPluginContext(id)
		return
	}
	if p, ok := t.plugins[parent]; ok {
		if s := p.NewHttpContext(id); s != nil {
			t.streams[id] = s
		}
	}
}

// done ends a stream, or asks a plugin whether it is done and forgets it when it says so.
func (t *table) done(id uint32) bool {
	if s, ok := t.streams[id]; ok {
		delete(t.streams, id)
		s.OnHttpStreamDone()
		return true
	}
	p, ok := t.plugins[id]
	if !ok {
		return true
	}
	if !p.OnPluginDone() {
		return false
	}
	delete(t.plugins, id)
	return true
}

// recovered handles a panic in a context's callback.
func recovered(callback string, context, v any) types.Action {
	what := "panic in " + callback + ": " + describe(v)
	Log(LogError, what)
	if r, ok := context.(Recoverer); ok {
		return r.Recovered(what)
	}
	return types.ActionContinue
}

// describe is what fmt would print for the values that panics have.
func describe(v any) string {
	switch v := v.(type) {
	case error:
		return v.Error()
	case string:
		return v
	}
	return "unknown cause"
}
