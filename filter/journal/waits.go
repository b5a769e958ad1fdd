package journal

import "math/bits"

// How long requests waited that were admitted then, by the slot of time in which their wait ended and by a bucket for
// their length. A bucket's width is a quarter of where it begins or less, and two waits in one bucket are taken for the
// same.
const (
	SlotNanos = int64(10e9)
	Slots     = 60
	Buckets   = 88 // the last one begins at 7,340,032 ms
)

// poolWaits are the waits for one pool.
type poolWaits struct {
	_ incomparable

	pool  string
	slots []waitSlot // at their numbers modulo their count; nil until one waits
}

type waitSlot struct {
	_ incomparable

	number  int64 // monotonic time by SlotNanos
	longest int64 // milliseconds
	counts  [Buckets]uint32
}

// AddPool adds a pool whose waits are kept, and returns its number.
func (j *Journal) AddPool(name string) int {
	j.waits = append(j.waits, poolWaits{pool: name})
	return len(j.waits) - 1
}

// CountWait counts a wait, and reports whether it is longer than all before it in this slot.
func (j *Journal) CountWait(pool int, now, millis int64) (longest bool) {
	w := &j.waits[pool]
	if w.slots == nil {
		w.slots = make([]waitSlot, Slots)
	}
	number := now / SlotNanos
	s := &w.slots[number%Slots]
	if s.number != number {
		*s = waitSlot{number: number}
	}
	s.counts[BucketOf(millis)]++
	longest = millis > s.longest
	s.longest = max(s.longest, millis)
	return longest
}

// BucketOf is the bucket of a wait.
func BucketOf(millis int64) int {
	if millis < 4 {
		return int(max(millis, 0))
	}
	octave := bits.Len64(uint64(millis)) - 1
	return min(4*(octave-1)+int(millis>>(octave-2)&3), Buckets-1)
}

// BucketMillis is the middle of a bucket.
func BucketMillis(bucket int) int64 {
	if bucket < 4 {
		return int64(bucket)
	}
	shift := bucket/4 - 1
	return int64(4+bucket%4)<<shift + int64(1)<<shift/2
}

// appendWaits appends the waits of the last slots, as far as there is room for them:
//
//	for each pool with waits
//	n bytes  its name as a text
//	1 byte   the number of slots
//	         for each slot
//	8 bytes  its number
//	1 byte   the number of buckets
//	         for each of those: 1 byte its number, 4 bytes the count
func (j *Journal) appendWaits(dst []byte, now int64, room int) []byte {
	end := len(dst) + room
	for i := range j.waits {
		w := &j.waits[i]
		if w.slots == nil || len(dst)+2+mostText > end {
			continue
		}
		dst = putText(dst, w.pool)
		count := len(dst)
		dst = append(dst, 0)
		for age := range int64(Slots) {
			number := now/SlotNanos - age
			s := &w.slots[(number%Slots+Slots)%Slots]
			if s.number != number || s.longest == 0 && s.empty() || len(dst)+9+5*Buckets > end {
				continue
			}
			dst = s.append(dst)
			dst[count]++
		}
	}
	return dst
}

func (s *waitSlot) empty() bool {
	for _, n := range s.counts {
		if n > 0 {
			return false
		}
	}
	return true
}

func (s *waitSlot) append(dst []byte) []byte {
	dst = put64(dst, uint64(s.number))
	count := len(dst)
	dst = append(dst, 0)
	for bucket, n := range s.counts {
		if n > 0 {
			dst = put32(append(dst, byte(bucket)), n)
			dst[count]++
		}
	}
	return dst
}

// EachWait calls f with each count of a report's waits. It ends at what is no count.
//
//go:noinline // as put32
func EachWait(b []byte, f func(pool string, slot int64, bucket int, n uint32)) {
	for len(b) > 0 {
		pool, rest, ok := cutText(b)
		if !ok || len(rest) == 0 {
			return
		}
		slots := int(rest[0])
		b = rest[1:]
		for ; slots > 0; slots-- {
			if len(b) < 9 || len(b) < 9+5*int(b[8]) {
				return
			}
			slot, buckets := int64(get64(b)), int(b[8])
			for b = b[9:]; buckets > 0; buckets-- {
				if bucket := int(b[0]); bucket < Buckets {
					f(pool, slot, bucket, get32(b[1:]))
				}
				b = b[5:]
			}
		}
	}
}
