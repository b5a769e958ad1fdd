package abi_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/build/wasmbuild"
	"github.com/headgate/headgate/filter/abi"
	"github.com/headgate/headgate/wasmtest"
)

// stumbler panics where its configuration says; see testdata/stumbler.
var stumbler *wasmtest.Module

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "stumbler")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "stumbler.wasm")
	if err := wasmbuild.Module("testdata/stumbler", path); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	if stumbler, err = wasmtest.Compile(code); err != nil {
		panic(err)
	}
	defer stumbler.Close()
	return m.Run()
}

func start(t *testing.T, where string) (*wasmtest.Host, *wasmtest.Plugin, error) {
	h := wasmtest.Start(t, stumbler)
	p, err := h.Load(wasmtest.PluginConfig{Configuration: []byte(where), AllowOnHeadersStopIteration: true})
	return h, p, err
}

// A panic in any callback is a log line and an answer; the VM goes on, and the next stream is served.
func TestPanicsAreRecovered(t *testing.T) {
	for _, c := range []struct{ where, log string }{
		{"headers", "panic in proxy_on_request_headers: runtime error: invalid memory address or nil pointer dereference"},
		{"headers bounds", "panic in proxy_on_request_headers: runtime error: index out of range [14] with length 7"},
		{"headers string", "panic in proxy_on_request_headers: a string"},
		{"headers error", "panic in proxy_on_request_headers: an error of its own"},
		{"headers other", "panic in proxy_on_request_headers: unknown cause"},
		{"body", "panic in proxy_on_request_body: runtime error: invalid memory address or nil pointer dereference"},
		{"done string", "panic in proxy_on_done: a string"},
		{"create string", "panic in proxy_on_context_create: a string"},
		{"tick string", "panic in proxy_on_tick: a string"},
	} {
		t.Run(c.where, func(t *testing.T) {
			h, p, err := start(t, c.where)
			require.NoError(t, err)
			for range 3 {
				s := p.Stream(0)
				s.RequestHeaders(wasmtest.RequestHeaders("POST", "/"), false)
				require.Equal(t, strings.HasPrefix(c.where, "headers"), s.Paused(), "the Recoverer's answer")
				s.RequestBody([]byte("x"), true)
				s.ClientGone()
			}
			h.Run(100 * time.Millisecond)
			require.NotEmpty(t, h.Logs())
			for _, l := range h.Logs() {
				require.Equal(t, c.log, l.Message)
			}
			require.NoError(t, h.Verify())
		})
	}
}

func TestPanicWhileConfiguringRefusesTheConfiguration(t *testing.T) {
	_, _, err := start(t, "configure string")
	require.ErrorIs(t, err, wasmtest.ErrRefused)
}

// Values larger than the static buffer, and those just at its edge, arrive whole.
func TestLargeHeadersArriveWhole(t *testing.T) {
	_, p, err := start(t, "")
	require.NoError(t, err)
	for _, n := range []int{0, 1, 65000, 65400, 65536, 70000, 1 << 20} {
		s := p.Stream(0)
		want := strings.Repeat("v", n)
		s.RequestHeaders(wasmtest.RequestHeaders("POST", "/", "x-show", want), true)
		got, _ := s.Request().FilterState("shown")
		require.Equal(t, want, string(got))
		s.ClientGone()
	}
}

// More streams at once than the table finds by number.
func TestManyStreamsAtOnce(t *testing.T) {
	_, p, err := start(t, "")
	require.NoError(t, err)
	var ss []*wasmtest.Stream
	for i := range 5000 {
		s := p.Stream(0)
		ss = append(ss, s)
		s.RequestHeaders(wasmtest.RequestHeaders("POST", "/", "x-show", fmt.Sprint(i)), false)
	}
	for i, s := range ss {
		got, _ := s.Request().FilterState("shown")
		require.Equal(t, fmt.Sprint(i), string(got))
		s.ClientGone()
	}
}

func TestPairs(t *testing.T) {
	want := [][2]string{{":path", "/"}, {"a", ""}, {"", "b"}, {"long", strings.Repeat("x", 1000)}}
	b := abi.AppendPairs(nil, want...)
	require.Equal(t, want, all(b))
	require.Empty(t, all(abi.AppendPairs(nil)))
	for n := range b {
		require.Subset(t, want, all(b[:n]), "a map cut after %d bytes", n)
	}
}

// Seek finds what a search of all pairs finds.
func FuzzSeek(f *testing.F) {
	f.Add(abi.AppendPairs(nil, [2]string{"ab", "1"}, [2]string{"x-a", "2"}, [2]string{"", "3"}), uint64(1<<2))
	f.Fuzz(func(t *testing.T, b []byte, lengths uint64) {
		var want, got [][2]string
		for _, p := range all(b) {
			if lengths>>(len(p[0])%64)&1 == 1 || strings.HasPrefix(p[0], "x-") {
				want = append(want, p)
			}
		}
		for c := abi.Pairs(b).Cursor(); c.Seek(lengths, "x-"); {
			got = append(got, [2]string{string(c.Name), string(c.Value)})
		}
		require.Equal(t, want, got)
	})
}

// Whatever the host hands over, reading it neither panics nor runs past its end.
func FuzzPairs(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(abi.AppendPairs(nil, [2]string{"a", "b"}))
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		n := 0
		for _, p := range all(b) {
			n += len(p[0]) + len(p[1]) + 2
		}
		require.LessOrEqual(t, n, len(b))
	})
}

func all(b abi.Pairs) [][2]string {
	var out [][2]string
	for c := b.Cursor(); c.Next(); {
		out = append(out, [2]string{string(c.Name), string(c.Value)})
	}
	return out
}
