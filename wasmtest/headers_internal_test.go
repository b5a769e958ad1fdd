package wasmtest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func FuzzDecodeHeaders(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(HeadersOf("a", "1", "a", "", "b", "x\x00y").encode(nil))
	f.Add([]byte("\x01\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, ok := decodeHeaders(b)
		if !ok {
			return
		}
		again, ok := decodeHeaders(h.encode(nil))
		require.True(t, ok)
		require.Len(t, again, len(h))
		for i := range h {
			require.Equal(t, h[i], again[i])
		}
	})
}

func TestDecodeHeaders_Limits(t *testing.T) {
	many := make(Headers, maxPairsCount)
	_, ok := decodeHeaders(many.encode(nil))
	require.True(t, ok)
	_, ok = decodeHeaders(append(many, Header{}).encode(nil))
	require.False(t, ok)
	_, ok = decodeHeaders(Headers{{"a", string(make([]byte, maxPairsBytes))}}.encode(nil))
	require.False(t, ok)
}
