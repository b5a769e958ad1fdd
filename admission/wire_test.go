package admission

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Numbers are little endian, and each byte has its place.
func TestNumbersAreLittleEndian(t *testing.T) {
	bytes := []byte{0x81, 0x92, 0xA3, 0xB4, 0xC5, 0xD6, 0xE7, 0xF8}
	require.Equal(t, uint16(0x9281), get16(bytes))
	require.Equal(t, uint32(0xB4A39281), get32(bytes))
	require.Equal(t, uint64(0xF8E7D6C5B4A39281), get64(bytes))
	b := make([]byte, 8)
	put16(b, 0x9281)
	require.Equal(t, bytes[:2], b[:2])
	put32(b, 0xB4A39281)
	require.Equal(t, bytes[:4], b[:4])
	put64(b, 0xF8E7D6C5B4A39281)
	require.Equal(t, bytes, b)
}

func TestExtendKeepsWhatIsThere(t *testing.T) {
	b := extend([]byte{1, 2}, 3)
	require.Len(t, b, 5)
	require.Equal(t, []byte{1, 2}, b[:2])
	room := make([]byte, 2, 8)
	require.Same(t, &room[0], &extend(room, 6)[0], "memory that is there is used")
	require.NotSame(t, &room[0], &extend(room, 7)[0])
}

// The message that tells a grant to its worker is read as it was written, and nothing else is one.
func TestGrantMessages(t *testing.T) {
	g := Grant{Worker: Worker{Seat: 3, Epoch: 0xF8E7D6C5B4A39281}, Seq: 0xB4A39281}
	var b [GrantBytes]byte
	g.Encode(&b)
	epoch, seq, ok := DecodeGrant(b[:])
	require.True(t, ok)
	require.Equal(t, g.Epoch, epoch)
	require.Equal(t, g.Seq, seq)
	for _, no := range [][]byte{nil, {0}, b[:GrantBytes-1], append(b[:GrantBytes:GrantBytes], 0)} {
		_, _, ok := DecodeGrant(no)
		require.False(t, ok, "%d bytes", len(no))
	}
}
