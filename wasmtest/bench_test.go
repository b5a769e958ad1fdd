package wasmtest_test

import (
	"testing"

	"github.com/headgate/headgate/wasmtest"
)

// BenchmarkHost is what one schedule of an explorer costs before it does anything: a host with two VMs of standard Go.
func BenchmarkHost(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		h, err := wasmtest.New(turnstileModule, wasmtest.WithWorkers(2))
		if err != nil {
			b.Fatal(err)
		}
		h.MustLoad(wasmtest.PluginConfig{Configuration: []byte("1")})
		h.Close()
	}
}

// BenchmarkRequest is one request with five host calls, from its headers to its end.
func BenchmarkRequest(b *testing.B) {
	h, err := wasmtest.New(turnstileModule)
	if err != nil {
		b.Fatal(err)
	}
	defer h.Close()
	p := h.MustLoad(wasmtest.PluginConfig{Configuration: []byte("1")})
	headers := wasmtest.RequestHeaders("GET", "/")
	b.ReportAllocs()
	for b.Loop() {
		s := p.Stream(0)
		s.RequestHeaders(headers, true)
		s.Complete()
		h.Drain()
	}
}
