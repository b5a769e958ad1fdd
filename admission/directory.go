package admission

// A Directory says which pool key has which slot of the pool's record table, and under which generation.
//
// A slot changes hands so that no two keys ever use it at once and no key ever has two:
//
//  1. The slot's record is retired at the old entry's generation. That succeeds only if the record is idle, and it
//     stops every worker that still goes by the old entry.
//  2. The directory's entry is replaced by one of a new generation, in a compare-and-swap against the directory that
//     was read before step 1.
//  3. The new key's first operation takes the retired record over, since its generation is newer.
//
// A worker that finds its key's slot retired or taken looks the key up again. If the entry is still the key's own, the
// worker renews it under a new generation in the same way.
//
// It also has the override of the pool's default limit, under which a record is made: whoever makes one has read its
// place here, and the override with it.
type Directory struct {
	gen      uint32
	override Override
	entries  []entry // index: slot
}

type entry struct {
	_ incomparable

	gen  uint32
	name string
}

const (
	directoryVersion = 2
	directoryHead    = 10 // bytes: version 1, generation count 4, source of the override 1, its limit 4
	entryHead        = 5  // of an entry: generation 4, length of the name 1
)

// A Place is a key's slot and the generation it has it under.
type Place struct {
	Slot int
	Gen  uint32
}

// Decode reads a directory. Bytes of another version are an empty directory.
func (d *Directory) Decode(b []byte) {
	d.gen, d.override, d.entries = 0, Override{}, d.entries[:0]
	if len(b) < directoryHead || b[0] != directoryVersion {
		return
	}
	d.gen = get32(b[1:])
	d.SetOverride(Override{Source: Source(b[5]), Limit: int(get32(b[6:]))})
	for b = b[directoryHead:]; len(b) >= entryHead && len(b) >= entryHead+int(b[4]); b = b[entryHead+int(b[4]):] {
		d.entries = append(d.entries, entry{gen: get32(b), name: string(b[entryHead : entryHead+int(b[4])])})
	}
}

// Append encodes the directory behind dst.
func (d *Directory) Append(dst []byte) []byte {
	var head [directoryHead]byte
	head[0] = directoryVersion
	put32(head[1:], d.gen)
	head[5] = byte(d.override.Source)
	put32(head[6:], boundedLimit(d.override.Limit))
	dst = append(dst, head[:]...)
	for i := range d.entries {
		var b [entryHead]byte
		put32(b[:], d.entries[i].gen)
		b[4] = byte(len(d.entries[i].name))
		dst = append(append(dst, b[:]...), d.entries[i].name...)
	}
	return dst
}

// Override is the override of the pool's default limit.
func (d *Directory) Override() Override { return d.override }

// SetOverride sets the override of the pool's default limit. One whose source is none for that is no override.
func (d *Directory) SetOverride(o Override) {
	if d.override = (Override{}); o.Source == FromPool || o.Source == FromFleet {
		d.override = o
	}
}

// Len is the number of slots in use, by busy keys and idle ones alike.
func (d *Directory) Len() int { return len(d.entries) }

// At is the name and place of the key in a slot.
func (d *Directory) At(slot int) (name string, p Place) {
	return d.entries[slot].name, Place{Slot: slot, Gen: d.entries[slot].gen}
}

// Lookup finds a key's place.
func (d *Directory) Lookup(name string) (Place, bool) {
	name = clip(name)
	for i := range d.entries {
		if d.entries[i].name == name {
			return Place{Slot: i, Gen: d.entries[i].gen}, true
		}
	}
	return Place{}, false
}

// Add gives a key a slot of its own that nobody had before.
func (d *Directory) Add(name string) Place {
	d.entries = append(d.entries, entry{})
	return d.Assign(len(d.entries)-1, name)
}

// Assign gives a slot, whose record has been retired, to a key under a new generation.
//
//go:noinline // called from many places
func (d *Directory) Assign(slot int, name string) Place {
	d.gen++
	d.entries[slot] = entry{gen: d.gen, name: clip(name)}
	return Place{Slot: slot, Gen: d.gen}
}

// Vacate takes a slot away from its key without giving it to another: the key is in the directory no more.
func (d *Directory) Vacate(slot int) { d.Assign(slot, "") }

// CountUnconfigured is the number of keys that are not in configured: those that max_keys bounds.
func (d *Directory) CountUnconfigured(configured map[string]int) int {
	n := 0
	for i := range d.entries {
		if _, found := configured[d.entries[i].name]; !found {
			n++
		}
	}
	return n
}

// RaiseGen raises the generation count to at least gen, so that the next Assign is newer than a record that was found.
func (d *Directory) RaiseGen(gen uint32) { d.gen = max(d.gen, gen) }

// clip shortens a name to what a length byte can say.
func clip(name string) string { return name[:min(len(name), MaxName)] }
