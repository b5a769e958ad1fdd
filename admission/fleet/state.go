package fleet

import (
	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/internal/text"
)

// stateVersion begins the bytes of a state. Those of another version can't be read.
const stateVersion = 1

// AppendState appends what another worker needs to go on in this one's place. The driver keeps it where all workers can
// read it, each time before it sends a call.
func (r *Replica) AppendState(to []byte) []byte {
	w := stateWriter{append(to, stateVersion)}
	w.string(r.set.Replica)
	for _, n := range [...]int64{r.number, int64(r.sent), int64(r.until), int64(len(r.order))} {
		w.number(n)
	}
	for _, k := range r.order {
		w.string(k.pool)
		w.string(k.key)
		w.number(int64(k.share.Until))
		k.safe++ // -1 has no bytes
		for _, n := range k.counts() {
			w.number(int64(*n))
		}
		k.safe--
		flags := int64(0)
		if k.isListed {
			flags |= 1
		}
		if k.answered {
			flags |= 2
		}
		w.number(flags)
	}
	return w.bytes
}

// Restore returns a replica that goes on where the state was kept, under the same name. ok is false where the bytes are
// no state: whoever then makes a new Replica gives it a new name.
func Restore(now Time, set Settings, state []byte) (r *Replica, ok bool) {
	in := stateReader{bytes: state}
	if in.number() != stateVersion {
		return nil, false
	}
	set.Replica = in.string()
	r = New(now, set)
	r.number, r.sent, r.until = in.number()+1, Time(in.number()), Time(in.number())
	r.calls = 1 // so that the gap to the last call is kept
	r.sent = min(r.sent, now)
	count := in.number()
	for ; count > 0 && !in.bad; count-- {
		pool := in.string()
		k := r.newKey(now, pool, in.string())
		k.share.Until = Time(in.number())
		for _, n := range k.counts() {
			*n = in.count()
		}
		k.safe--
		flags := in.number()
		k.isListed, k.answered, k.changed = flags&1 != 0, flags&2 != 0, true
		r.order = append(r.order, k)
	}
	if in.bad || len(in.bytes) > 0 || r.set.Replica == "" || r.number > maxCall {
		return nil, false
	}
	return r, true
}

// counts are what of a key's state is a number of permits.
func (k *key) counts() [8]*int {
	return [...]*int{&k.share.Limit, &k.share.After, &k.granted, &k.target, &k.safe, &k.sentWants, &k.sentKeep,
		&k.sentLimit}
}

type stateWriter struct{ bytes []byte }

// number writes seven bits in each byte, the lowest first.
//
//go:noinline
func (w *stateWriter) number(n int64) {
	for ; n > 0x7F; n >>= 7 {
		w.bytes = append(w.bytes, byte(n)|0x80)
	}
	w.bytes = append(w.bytes, byte(n))
}

func (w *stateWriter) string(s string) {
	w.number(int64(len(s)))
	w.bytes = text.Put(w.bytes, s)
}

type stateReader struct {
	bytes []byte
	bad   bool
}

//go:noinline
func (r *stateReader) number() (n int64) {
	for shift := 0; shift < 63 && len(r.bytes) > 0; shift += 7 {
		b := r.bytes[0]
		r.bytes = r.bytes[1:]
		n |= int64(b&0x7F) << shift
		if b < 0x80 {
			return n
		}
	}
	r.bad = true
	return 0
}

// count reads a number of permits.
func (r *stateReader) count() int {
	n := r.number()
	r.bad = r.bad || n > admission.MaxLimit+1
	return int(n)
}

func (r *stateReader) string() string {
	n := r.number()
	if r.bad || n > int64(len(r.bytes)) {
		r.bad = true
		return ""
	}
	s := string(r.bytes[:n])
	r.bytes = r.bytes[n:]
	return s
}
