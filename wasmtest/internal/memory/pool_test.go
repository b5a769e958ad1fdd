package memory

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const page = 64 << 10

func TestMemoryThatComesBackIsZeroAgain(t *testing.T) {
	var p Pool
	first := p.Allocate(page, page)
	bytes := first.Reallocate(2 * page)
	for i := range bytes {
		bytes[i] = 0xff
	}
	first.Free()
	second := p.Allocate(page, page)
	require.Same(t, first, second, "a free memory is lent again")
	require.Equal(t, make([]byte, page), second.Reallocate(page))
	require.Equal(t, make([]byte, 3*page), second.Reallocate(3*page), "what it grows by is zero too")
}

func TestMemoryKeepsItsBytesWhenItGrows(t *testing.T) {
	var p Pool
	m := p.Allocate(page, 0)
	m.Reallocate(page)[7] = 42
	grown := m.Reallocate(firstCapacity + page) // beyond what was set aside for it
	require.Len(t, grown, firstCapacity+page)
	require.Equal(t, byte(42), grown[7])
	require.Equal(t, byte(0), grown[firstCapacity])
}

func TestLivingVMsShareNoMemory(t *testing.T) {
	var p Pool
	a, b := p.Allocate(page, page), p.Allocate(page, page)
	a.Reallocate(page)[0] = 1
	require.Equal(t, byte(0), b.Reallocate(page)[0])
}

func TestPoolKeepsABoundedNumber(t *testing.T) {
	var p Pool
	all := make([]interface{ Free() }, 2*maxFree)
	for i := range all {
		all[i] = &linear{pool: &p}
	}
	for _, m := range all {
		m.Free()
	}
	require.Len(t, p.free, maxFree)
}
