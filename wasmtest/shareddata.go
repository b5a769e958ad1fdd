package wasmtest

import (
	"bytes"
	"slices"
)

// SharedData is the key-value store that all VMs of a host share, with the real host's rules: one 32-bit counter makes
// the compare-and-swap numbers of all keys, it skips 0 and wraps; a set with cas 0 overwrites blindly; a set on an
// absent key creates it whatever its cas. Guests can't delete or list; a test can. Values are copied in and out.
type SharedData struct {
	entries map[string]*sharedEntry
	nextCAS uint32
}

type sharedEntry struct {
	value []byte
	cas   uint32
}

func newSharedData() *SharedData {
	return &SharedData{entries: map[string]*sharedEntry{}, nextCAS: 1}
}

// Get returns a copy of the value of key and its compare-and-swap number; ok is false when the key is absent.
func (d *SharedData) Get(key string) (value []byte, cas uint32, ok bool) {
	e := d.entries[key]
	if e == nil {
		return nil, 0, false
	}
	return bytes.Clone(e.value), e.cas, true
}

// Set writes as another worker would: unconditionally, with a new compare-and-swap number.
func (d *SharedData) Set(key string, value []byte) { d.set([]byte(key), value, 0) }

// Delete removes key, as when the store of a vm_id dies and comes back; it does nothing when the key is absent.
func (d *SharedData) Delete(key string) { delete(d.entries, key) }

// Clear removes every key. The real host does so when the last VM of a vm_id dies, between any two calls of a later
// one.
func (d *SharedData) Clear() { clear(d.entries) }

// Keys lists the keys, sorted.
func (d *SharedData) Keys() []string {
	keys := make([]string, 0, len(d.entries))
	for key := range d.entries {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// SetNextCAS sets the number the next write gets, to test what happens when the counter wraps. Zero counts as one.
func (d *SharedData) SetNextCAS(cas uint32) { d.nextCAS = max(cas, 1) }

func (d *SharedData) get(key []byte) *sharedEntry { return d.entries[string(key)] }

func (d *SharedData) set(key, value []byte, cas uint32) Status {
	e := d.entries[string(key)]
	if e == nil {
		e = &sharedEntry{}
		d.entries[string(key)] = e
	} else if cas != 0 && cas != e.cas {
		return StatusCasMismatch
	}
	e.value = append(e.value[:0], value...)
	e.cas = d.takeCAS()
	return StatusOk
}

func (d *SharedData) takeCAS() uint32 {
	cas := d.nextCAS
	d.nextCAS++
	if d.nextCAS == 0 {
		d.nextCAS = 1
	}
	return cas
}
