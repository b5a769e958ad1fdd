package wasmtest_test

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

func TestProperty_FilterStateIsSharedByTheStreamsOfARequest(t *testing.T) {
	s, plugin := newStage(t)
	attempts := s.MustLoad(wasmtest.PluginConfig{Name: "attempts"})
	client := plugin.Stream(0)
	s.do("request_headers", func(p *puppet) {
		if p.ID() == client.ContextID() {
			p.must(opSetProperty, "k", "v")
		}
		require.Equal(t, "v", p.must(opGetProperty, "k").B)
		require.Equal(t, "v", p.must(opGetProperty, "filter_state\x00wasm.k").B)
		require.Equal(t, wasmtest.StatusNotFound, p.call(opGetProperty, "filter_state\x00k").Status)
		require.Equal(t, wasmtest.StatusNotFound, p.call(opGetProperty, "other").Status)
	})
	client.RequestHeaders(get, true)
	attempts.Stream(0, wasmtest.Upstream(), wasmtest.OfRequest(client.Request())).RequestHeaders(get, true)
	value, found := client.Request().FilterState("k")
	require.True(t, found)
	require.Equal(t, "v", string(value))

	s.do("request_headers", func(p *puppet) {
		require.Equal(t, wasmtest.StatusNotFound, p.call(opGetProperty, "k").Status)
	})
	plugin.Stream(0).RequestHeaders(get, true)
}

func TestProperty_RootsHaveNoFilterState(t *testing.T) {
	s, plugin := newStage(t)
	tick(s, plugin, func(p *puppet) {
		require.Equal(t, wasmtest.StatusNotFound, p.call(opSetProperty, "k", "v").Status)
	})
}

func TestProperty_SetByTheTestNearestFirst(t *testing.T) {
	s, plugin := newStage(t)
	stream := plugin.Stream(0)
	s.SetProperty("host's", "a")
	s.SetProperty("host's", "b")
	s.SetProperty("host's", "c")
	stream.Request().SetProperty("request's", "b")
	stream.Request().SetProperty("request's", "c")
	stream.SetProperty("stream's", "c")
	stream.SetProperty("alice", "metadata", "filter_metadata", "envoy.filters.http.jwt_authn", "sub")
	s.do("request_headers", func(p *puppet) {
		for name, want := range map[string]string{"a": "host's", "b": "request's", "c": "stream's",
			"metadata\x00filter_metadata\x00envoy.filters.http.jwt_authn\x00sub": "alice"} {
			require.Equal(t, want, p.must(opGetProperty, name).B)
		}
	})
	stream.RequestHeaders(get, true)
	stream.SetProperty(nil, "c")
	s.do("done", func(p *puppet) { require.Equal(t, "request's", p.must(opGetProperty, "c").B) })
	stream.Complete()
	require.Panics(t, func() { s.SetProperty(struct{}{}, "x") })
}

func TestProperty_ValuesAreSerialisedAsByTheHost(t *testing.T) {
	s, plugin := newStage(t)
	n := func(v uint64) string { return string(binary.LittleEndian.AppendUint64(nil, v)) }
	for _, c := range []struct {
		value any
		want  string
	}{{"s", "s"}, {[]byte("b"), "b"}, {true, "\x01"}, {-1, n(1<<64 - 1)}, {int64(5), n(5)}, {uint64(6), n(6)},
		{1.5, n(0x3ff8000000000000)}, {time.Second, n(1e9)}, {time.Unix(1, 0), n(1e9)}} {
		s.SetProperty(c.value, "p")
		as(s, plugin, 0, func(p *puppet) { require.Equal(t, c.want, p.must(opGetProperty, "p").B, "%v", c.value) })
	}
}

func TestProperty_TheHostsOwn(t *testing.T) {
	s := emptyStage(t, wasmtest.WithVMID("vm"))
	plugin := s.MustLoad(wasmtest.PluginConfig{Name: "name", RootID: "root"})
	stream := plugin.Stream(0)
	s.do("request_headers", func(p *puppet) {
		for name, want := range map[string]string{"plugin_name": "name", "plugin_root_id": "root", "plugin_vm_id": "vm",
			"request\x00path": "/a?b", "request\x00url_path": "/a", "request\x00method": "GET",
			"request\x00host": "example.test", "request\x00headers\x00x-a": "1"} {
			require.Equal(t, want, p.must(opGetProperty, name).B, name)
		}
		require.Equal(t, wasmtest.StatusNotFound, p.call(opGetProperty, "response\x00code").Status)
		require.Equal(t, wasmtest.StatusNotFound, p.call(opGetProperty, "request\x00nonsense").Status)
	})
	s.do("response_headers", func(p *puppet) {
		require.Equal(t, wasmtest.StatusNotFound, p.call(opGetProperty, "request\x00path").Status, "its headers are gone")
		require.Equal(t, "200", p.must(opGetProperty, "response\x00headers\x00:status").B)
	})
	s.do("log", func(p *puppet) { require.Equal(t, "/a?b", p.must(opGetProperty, "request\x00path").B) })
	stream.RequestHeaders(wasmtest.RequestHeaders("GET", "/a?b", "x-a", "1"), true)
	stream.ResponseHeaders(ok, true)
	require.Len(t, stream.Callbacks(), 6)
}
