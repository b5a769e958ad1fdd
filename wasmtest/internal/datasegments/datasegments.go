// Package datasegments rewrites the data section of a WebAssembly module, so that its VMs start faster and do the same.
package datasegments

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"
)

// Merge returns a module whose memory is initialised by a few large segments instead of thousands of small ones. The Go
// linker leaves out every run of zeros; an engine then spends more time on the segments than on the bytes, each time a
// VM is made. A module that isn't laid out as expected is returned unchanged: Merge only saves time.
func Merge(wasm []byte) []byte {
	merged, err := mergeSections(wasm)
	if err != nil {
		return wasm
	}
	return merged
}

const (
	dataSection      = 11
	dataCountSection = 12
	wasmHeader       = 8
	largestGap       = 256 // so many zeros are worth writing out to save a segment
	opI32Const       = 0x41
	opEnd            = 0x0b
	activeMemory     = 0
)

var errLayout = errors.New("unexpected layout")

type segment struct {
	offset uint64
	data   []byte
}

// mergeSections replaces the data section. It fails if there is none that it understands.
func mergeSections(wasm []byte) ([]byte, error) {
	if len(wasm) < wasmHeader {
		return nil, errLayout
	}
	for at := wasmHeader; at < len(wasm); {
		start := at
		r := reader{bytes: wasm[at+1:]}
		size := r.unsigned()
		body := r.take(size)
		if body == nil {
			return nil, errLayout
		}
		at = len(wasm) - len(r.bytes)
		switch wasm[start] {
		case dataCountSection: // it says how many segments there are, which would no longer be true
			return nil, errLayout
		case dataSection:
		default:
			continue
		}
		segments, err := readSegments(body)
		if err != nil {
			return nil, err
		}
		content := writeSegments(merge(segments))
		out := append(append([]byte(nil), wasm[:start]...), dataSection)
		out = binary.AppendUvarint(out, uint64(len(content)))
		return append(append(out, content...), wasm[at:]...), nil
	}
	return nil, errLayout
}

// readSegments wants active segments at constant addresses of memory 0 that don't overlap. It returns them by address.
func readSegments(body []byte) ([]segment, error) {
	r := reader{bytes: body}
	count := r.unsigned()
	if count > uint64(len(body)) {
		return nil, errLayout
	}
	segments := make([]segment, count)
	for i := range segments {
		if r.unsigned() != activeMemory || r.byte() != opI32Const {
			return nil, errLayout
		}
		offset := r.signed()
		if r.byte() != opEnd || offset < 0 {
			return nil, errLayout
		}
		segments[i] = segment{uint64(offset), r.take(r.unsigned())}
		if segments[i].data == nil {
			return nil, errLayout
		}
	}
	if len(r.bytes) != 0 {
		return nil, errLayout
	}
	slices.SortFunc(segments, func(a, b segment) int {
		return cmp.Or(cmp.Compare(a.offset, b.offset), cmp.Compare(len(a.data), len(b.data)))
	})
	for i := 1; i < len(segments); i++ {
		if before := segments[i-1]; before.offset+uint64(len(before.data)) > segments[i].offset {
			return nil, errLayout
		}
	}
	return segments, nil
}

// merge joins segments whose gap is small.
func merge(segments []segment) (merged []segment) {
	for _, s := range segments {
		if n := len(merged); n > 0 {
			last := &merged[n-1]
			if gap := s.offset - last.offset - uint64(len(last.data)); gap <= largestGap {
				last.data = append(append(last.data, make([]byte, gap)...), s.data...)
				continue
			}
		}
		merged = append(merged, segment{s.offset, append([]byte(nil), s.data...)})
	}
	return merged
}

func writeSegments(segments []segment) []byte {
	b := binary.AppendUvarint(nil, uint64(len(segments)))
	for _, s := range segments {
		b = append(b, activeMemory, opI32Const)
		b = appendSigned(b, int64(int32(s.offset)))
		b = append(b, opEnd)
		b = binary.AppendUvarint(b, uint64(len(s.data)))
		b = append(b, s.data...)
	}
	return b
}

// A reader takes a section apart. Behind the end, byte returns 0xff and take returns nil.
type reader struct{ bytes []byte }

func (r *reader) byte() byte {
	if len(r.bytes) == 0 {
		return 0xff
	}
	b := r.bytes[0]
	r.bytes = r.bytes[1:]
	return b
}

// take is never nil unless there are too few bytes.
func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.bytes)) {
		return nil
	}
	b := r.bytes[:n:n]
	r.bytes = r.bytes[n:]
	return b
}

// unsigned reads an unsigned LEB128 number; a malformed one is larger than any module.
func (r *reader) unsigned() uint64 {
	v, n := binary.Uvarint(r.bytes)
	if n <= 0 {
		return 1 << 40
	}
	r.bytes = r.bytes[n:]
	return v
}

// signed reads a signed LEB128 number of 32 bits.
func (r *reader) signed() (v int64) {
	for shift := 0; shift < 35; shift += 7 {
		b := r.byte()
		v |= int64(b&0x7f) << shift
		if b&0x80 == 0 {
			if b&0x40 != 0 {
				v |= -1 << (shift + 7)
			}
			return v
		}
	}
	return -1
}

func appendSigned(b []byte, v int64) []byte {
	for {
		low := byte(v & 0x7f)
		v >>= 7
		if (v == 0 && low&0x40 == 0) || (v == -1 && low&0x40 != 0) {
			return append(b, low)
		}
		b = append(b, low|0x80)
	}
}
