package wasmtest

import (
	"sync"

	"github.com/tetratelabs/wazero/experimental"
)

// memoryPool keeps the linear memories of closed VMs for new ones. A Go guest has some megabytes, and an explorer makes
// and drops thousands of VMs: without the pool most of its time goes into allocating and collecting them.
type memoryPool struct {
	mu   sync.Mutex
	free []*linearMemory
}

const (
	firstCapacity = 8 << 20
	maxFree       = 64
)

type linearMemory struct {
	pool  *memoryPool
	bytes []byte // its length is the largest size in use since it was zeroed
}

// allocate implements [experimental.MemoryAllocatorFunc].
func (p *memoryPool) allocate(capacity, _ uint64) experimental.LinearMemory {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		m := p.free[n-1]
		p.free = p.free[:n-1]
		return m
	}
	return &linearMemory{pool: p, bytes: make([]byte, 0, max(capacity, firstCapacity))}
}

// Reallocate grows the memory, in place while there is room: what is beyond the old size is zero already.
func (m *linearMemory) Reallocate(size uint64) []byte {
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
func (m *linearMemory) Free() {
	clear(m.bytes)
	m.bytes = m.bytes[:0]
	m.pool.mu.Lock()
	defer m.pool.mu.Unlock()
	if len(m.pool.free) < maxFree {
		m.pool.free = append(m.pool.free, m)
	}
}
