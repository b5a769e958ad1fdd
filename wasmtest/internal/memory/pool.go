// Package memory lends linear memories to WebAssembly VMs and takes them back for others. A VM always gets a memory
// that is all zeros, as a fresh one is.
package memory

import (
	"sync"

	"github.com/tetratelabs/wazero/experimental"
)

// A Pool keeps the memories of closed VMs for new ones. A Go guest has some megabytes, and an explorer makes and drops
// thousands of VMs: without the pool most of its time goes into allocating and collecting them. The zero Pool is ready.
type Pool struct {
	mu   sync.Mutex
	free []*linear
}

const (
	firstCapacity = 8 << 20
	maxFree       = 64
)

// linear is one memory, lent to a VM or free.
type linear struct {
	pool  *Pool
	bytes []byte // its length is the largest size in use since it was zeroed
}

// Allocate implements [experimental.MemoryAllocatorFunc].
func (p *Pool) Allocate(capacity, _ uint64) experimental.LinearMemory {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		m := p.free[n-1]
		p.free = p.free[:n-1]
		return m
	}
	return &linear{pool: p, bytes: make([]byte, 0, max(capacity, firstCapacity))}
}

// Reallocate grows the memory, in place while there is room: what is beyond the old size is zero already.
func (m *linear) Reallocate(size uint64) []byte {
	if size > uint64(cap(m.bytes)) {
		grown := make([]byte, size, size+size/2)
		copy(grown, m.bytes)
		m.bytes = grown
	}
	if uint64(len(m.bytes)) < size {
		m.bytes = m.bytes[:size]
	}
	return m.bytes[:size]
}

// Free zeroes what was used and gives the memory back.
func (m *linear) Free() {
	clear(m.bytes)
	m.bytes = m.bytes[:0]
	m.pool.mu.Lock()
	defer m.pool.mu.Unlock()
	if len(m.pool.free) < maxFree {
		m.pool.free = append(m.pool.free, m)
	}
}
