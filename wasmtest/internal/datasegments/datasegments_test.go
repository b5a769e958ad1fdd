package datasegments

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// image is the memory that a module's data section makes.
func image(t require.TestingT, wasm []byte) map[uint64]byte {
	for at := wasmHeader; at < len(wasm); {
		r := reader{bytes: wasm[at+1:]}
		body := r.take(r.unsigned())
		require.NotNil(t, body)
		if wasm[at] == dataSection {
			segments, err := readSegments(body)
			require.NoError(t, err)
			memory := map[uint64]byte{}
			for _, s := range segments {
				for i, b := range s.data {
					if b != 0 {
						memory[s.offset+uint64(i)] = b
					}
				}
			}
			return memory
		}
		at = len(wasm) - len(r.bytes)
	}
	return nil
}

func TestMergedSegmentsMakeTheSameMemory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var segments []segment
		offset := uint64(0)
		for range rapid.IntRange(0, 20).Draw(t, "count") {
			offset += rapid.Uint64Range(0, 2*largestGap).Draw(t, "gap")
			data := rapid.SliceOfN(rapid.Byte(), 0, 10).Draw(t, "data")
			segments = append(segments, segment{offset, data})
			offset += uint64(len(data))
		}
		content := writeSegments(rapid.Permutation(segments).Draw(t, "order"))
		wasm := []byte("\x00asm\x01\x00\x00\x00\x00\x01x\x0b")
		wasm = append(append(appendSize(wasm, len(content)), content...), 0, 1, 'y')
		merged, err := mergeSections(wasm)
		require.NoError(t, err)
		require.Equal(t, image(t, wasm), image(t, merged))
		require.Equal(t, byte('y'), merged[len(merged)-1])
	})
}

func appendSize(b []byte, n int) []byte {
	for ; n >= 0x80; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return append(b, byte(n))
}

func FuzzMerge(f *testing.F) {
	f.Add([]byte("\x00asm\x01\x00\x00\x00\x0b\x07\x01\x00\x41\x00\x0b\x01a"))
	f.Add([]byte("\x00asm\x01\x00\x00\x00\x0b\xff\xff\xff\xff\x0f"))
	f.Fuzz(func(t *testing.T, wasm []byte) {
		if merged, err := mergeSections(wasm); err == nil {
			require.Equal(t, image(t, wasm), image(t, merged))
		}
	})
}
