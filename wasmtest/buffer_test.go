package wasmtest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/wasmtest"
)

func TestBuffer_Configuration(t *testing.T) {
	s := emptyStage(t, wasmtest.WithVMConfiguration([]byte("vm's")))
	s.do("context_create", func(p *puppet) {
		if p.Args[1] == 0 {
			require.Equal(t, "mine", p.must(opGetBuffer, 7, 0, 100).B)
		}
	})
	s.do("vm_start", func(p *puppet) {
		require.EqualValues(t, 4, p.Args[1])
		require.Equal(t, "vm's", p.must(opGetBuffer, 6, 0, p.Args[1]).B)
		require.Equal(t, wasmtest.StatusNotFound, p.call(opGetBuffer, 7, 0, 100).Status)
	})
	s.do("configure", func(p *puppet) {
		require.EqualValues(t, 4, p.Args[1])
		require.Equal(t, "mine", p.must(opGetBuffer, 7, 0, p.Args[1]).B)
	})
	plugin := s.MustLoad(wasmtest.PluginConfig{Configuration: []byte("mine")})
	as(s, plugin, 0, func(p *puppet) {
		require.Equal(t, wasmtest.StatusNotFound, p.call(opGetBuffer, 7, 0, 100).Status, "only while configuring")
		require.Equal(t, "vm's", p.must(opGetBuffer, 6, 0, 100).B, "always")
		require.Equal(t, wasmtest.StatusBadArgument, p.call(opGetBuffer, 9, 0, 100).Status)
		require.Equal(t, wasmtest.StatusNotFound, p.call(opGetBuffer, 4, 0, 100).Status)
		require.Empty(t, p.must(opGetBuffer, 0, 0, 100).B, "a body can always be asked for")
		require.Equal(t, wasmtest.StatusBadArgument, p.call(opSetBuffer, 6, 0, 0, "x").Status)
	})
}

func TestBuffer_ReadsPartsAndNeverBeyond(t *testing.T) {
	s, plugin := newStage(t)
	s.do("request_body", func(p *puppet) {
		require.Equal(t, "cde", p.must(opGetBuffer, 0, 2, 3).B)
		require.Equal(t, "ef", p.must(opGetBuffer, 0, 4, 100).B)
		require.Empty(t, p.must(opGetBuffer, 0, 6, 1).B)
		require.Empty(t, p.must(opGetBuffer, 0, 100, 1).B)
		require.EqualValues(t, 6, p.must(opBufferStatus, 0).N)
	})
	stream := plugin.Stream(0)
	stream.RequestHeaders(post, false)
	stream.RequestBody([]byte("abcdef"), true)
}

func TestBuffer_CanBePrependedReplacedAndAppended(t *testing.T) {
	s, plugin := newStage(t)
	s.do("response_body", func(p *puppet) {
		p.must(opSetBuffer, 1, 0, 0, "<")
		p.must(opSetBuffer, 1, 4, 0, ">")
		require.Equal(t, "<abc>", p.must(opGetBuffer, 1, 0, 9).B)
		require.Equal(t, wasmtest.StatusBadArgument, p.call(opSetBuffer, 1, 1, 2, "x").Status, "the middle can't")
		require.Equal(t, wasmtest.StatusBadArgument, p.call(opSetBuffer, 1, 0, 2, "x").Status, "nor a beginning")
		p.must(opSetBuffer, 1, 0, 5, "whole")
	})
	stream := plugin.Stream(0)
	stream.RequestHeaders(get, true)
	stream.ResponseHeaders(ok, false)
	stream.ResponseBody([]byte("abc"), true)
	require.Equal(t, "whole", string(stream.Received().Body))
}
