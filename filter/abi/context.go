package abi

import "github.com/tetratelabs/proxy-wasm-go-sdk/proxywasm/types"

// A table has the living contexts of this VM.
//
// The host numbers contexts in order. So the last bits of the numbers of living streams mostly differ, and the array
// recent, indexed by these bits, has most streams. The map has those whose entry of the array is taken. An array is
// faster, since it needs no hash.
type table struct {
	vm      types.VMContext
	plugins map[uint32]types.PluginContext
	recent  [recentStreams]recentStream
	streams map[uint32]types.HttpContext
}

type recentStream struct {
	id     uint32 // 0: free; the host gives no context the number 0
	stream types.HttpContext
}

const recentStreams = 1024

var contexts = table{plugins: map[uint32]types.PluginContext{}, streams: map[uint32]types.HttpContext{}}

// create makes the context that the host has numbered id.
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

// done ends a stream, or a plugin that says that it is done. It returns false for a plugin that isn't.
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

// forget removes a stream from the table.
func (t *table) forget(id uint32) {
	if r := &t.recent[id%recentStreams]; r.id == id {
		*r = recentStream{}
		return
	}
	delete(t.streams, id)
}

// recovered logs a panic in a context's callback, and returns what the callback answers.
func recovered(callback string, context, v any) types.Action {
	what := "panic in " + callback + ": " + describe(v)
	Log(LogError, what)
	if r, ok := context.(Recoverer); ok {
		return r.Recovered(what)
	}
	return types.ActionContinue
}

// describe returns what fmt would print for a panic's value. Package fmt would make the module much larger.
func describe(v any) string {
	switch v := v.(type) {
	case error:
		return v.Error()
	case string:
		return v
	}
	return "unknown cause"
}
