package abi

import "github.com/tetratelabs/proxy-wasm-go-sdk/proxywasm/types"

// table holds the living contexts of this VM. The host numbers contexts in order, so that the streams alive at one time
// mostly have different last bits: those find their place by number, without a map's hashing; the others are in a map.
type table struct {
	vm      types.VMContext
	plugins map[uint32]types.PluginContext
	recent  [recentStreams]place
	streams map[uint32]types.HttpContext
}

type place struct {
	id     uint32 // 0: free; the host never numbers a context 0
	stream types.HttpContext
}

const recentStreams = 1024

var contexts = table{plugins: map[uint32]types.PluginContext{}, streams: map[uint32]types.HttpContext{}}

func (t *table) create(id, parent uint32) {
	if t.vm == nil {
		return
	}
	if parent == 0 {
		t.plugins[id] = t.vm.NewPluginContext(id)
		return
	}
	p, ok := t.plugins[parent]
	if !ok {
		return
	}
	s := p.NewHttpContext(id)
	if r := &t.recent[id%recentStreams]; r.id == 0 {
		r.id, r.stream = id, s
	} else {
		t.streams[id] = s
	}
}

// stream returns a living stream, or nil.
func (t *table) stream(id uint32) types.HttpContext {
	if r := &t.recent[id%recentStreams]; r.id == id {
		return r.stream
	}
	return t.streams[id]
}

// done ends a stream, or asks a plugin whether it is done and forgets it when it says so.
func (t *table) done(id uint32) bool {
	if s := t.stream(id); s != nil {
		t.forget(id)
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

func (t *table) forget(id uint32) {
	if r := &t.recent[id%recentStreams]; r.id == id {
		*r = place{}
		return
	}
	delete(t.streams, id)
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
