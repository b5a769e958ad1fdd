package abi

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/proxy-wasm-go-sdk/proxywasm/types"
)

type numberedVM struct{ types.DefaultVMContext }

func (*numberedVM) NewPluginContext(uint32) types.PluginContext { return &numberedPlugin{} }

type numberedPlugin struct{ types.DefaultPluginContext }

func (*numberedPlugin) NewHttpContext(id uint32) types.HttpContext { return &numberedStream{id: id} }

type numberedStream struct {
	types.DefaultHttpContext
	id    uint32
	ended int
}

func (s *numberedStream) OnHttpStreamDone() { s.ended++ }

// Streams whose numbers share a place in the array are all found, in whatever order they end.
func TestStreamsThatShareAPlace(t *testing.T) {
	ids := []uint32{7, 7 + recentStreams, 7 + 2*recentStreams}
	for first := range ids {
		c := table{vm: &numberedVM{}, plugins: map[uint32]types.PluginContext{}, streams: map[uint32]types.HttpContext{}}
		c.create(1, 0)
		streams := map[uint32]*numberedStream{}
		for _, id := range ids {
			c.create(id, 1)
			streams[id] = c.stream(id).(*numberedStream)
		}
		for i := range ids {
			for _, id := range ids {
				if s := streams[id]; s.ended == 0 {
					require.Same(t, s, c.stream(id))
					require.Equal(t, id, s.id)
				}
			}
			id := ids[(first+i)%len(ids)]
			require.True(t, c.done(id))
			require.Nil(t, c.stream(id), "a stream that has ended")
			require.Equal(t, 1, streams[id].ended)
		}
		require.Empty(t, c.streams)
		c.create(7, 1)
		require.NotNil(t, c.stream(7), "the place is free again")
		require.Empty(t, c.streams)
	}
}

// A context whose parent isn't there, or that comes before the module has a VM context, is none.
func TestContextsWithoutAParent(t *testing.T) {
	c := table{plugins: map[uint32]types.PluginContext{}, streams: map[uint32]types.HttpContext{}}
	c.create(1, 0)
	require.Empty(t, c.plugins)
	c.vm = &numberedVM{}
	c.create(5, 1)
	require.Nil(t, c.stream(5))
	require.True(t, c.done(5), "nothing is left to do")
}
