package records

import (
	"github.com/headgate/headgate/admission"
)

// Spares. The permit of a request that has ended may stay with this context for its next request: then neither the
// release nor the acquire needs the store. The record goes on counting it in this context's column, so no limit is ever
// passed for it; but nobody else can have it. So a context has spares only where its column is marked as being ahead,
// which a record allows while it is calm, gives them back when it is called, and looks at them twice in a warmth.

const (
	// warmth is within which time of its last acquire a key is warm: only then it is worth to keep a spare.
	warmth = 100 * millisecond
	// agingInterval is how often spares that were not needed are given back, and the marks compared with the records:
	// a recall can be lost.
	agingInterval = warmth / 2
	// agingMost is how many keys' spares are looked at in one turn.
	agingMost = 64
	// usesMost is how many local uses are told to the record together, if nothing else has to be stored.
	usesMost = 16
)

// A share is what a key's requests here have of one tenant.
type share struct {
	_ incomparable

	admission.TenantInflight // permits

	spares uint32 // permits that no request has
	least  uint32 // the least number of spares since they were last looked at
	kept   uint32 // spares that the reconcile in hand leaves here
}

// shareOf returns a tenant's share, and adds it if need be; the weight is in force from now on.
//
//go:noinline // as stopWaiting
func (k *Key) shareOf(tenant uint64, weight uint32) *share {
	s := k.find(tenant)
	if s == nil {
		k.shares = append(k.shares, share{TenantInflight: admission.TenantInflight{Tenant: tenant}})
		s = &k.shares[len(k.shares)-1]
	}
	s.Weight = weight
	return s
}

// find returns a tenant's share; nil: it has none.
//
//go:noinline // as stopWaiting
func (k *Key) find(tenant uint64) *share {
	for i := range k.shares {
		if s := &k.shares[i]; s.Tenant == tenant {
			return s
		}
	}
	return nil
}

// warm reports whether a request has asked for the key not long ago.
func (r *Records) warm(k *Key) bool { return k.asked > 0 && r.now-k.asked < warmth }

// settled reports whether nothing of this context's is under way in the key's record: no ticket, no acquire, no
// journal.
func (k *Key) settled() bool {
	return k.waiting.n == 0 && k.deciding.n == 0 && len(k.journal) == 0 && !k.dirty
}

// mayKeep reports whether a permit may stay here as a spare when its request ends so: the record has nothing to learn
// from the end.
//
//go:noinline // as stopWaiting
func (r *Records) mayKeep(p *Permit, f *admission.Finish) bool {
	k := p.Key
	return k.ahead && k.settled() && p.Seq != k.probe && r.warm(k) && !f.Pushback &&
		f.Outcome != admission.OutcomeFailure && (f.Outcome != admission.OutcomeCancel || k.Pool.Hold.Cancel == 0)
}

// spareOf returns the share in which an acquire of a tenant finds a spare; nil: there is none.
func (k *Key) spareOf(tenant uint64) *share {
	if k.spares == 0 || !k.ahead || !k.settled() {
		return nil
	}
	if s := k.find(tenant); s != nil && s.spares > 0 {
		return s
	}
	return nil
}

// keep lets the permit of a request that ends stay here as a spare; false: it has to be released. A context that was
// declared dead has none, so its lease is renewed first, as for a step.
func (r *Records) keep(p *Permit, f *admission.Finish) bool {
	k := p.Key
	if !r.mayKeep(p, f) || r.ensureSeat(k.Pool) != stored || !k.ahead {
		return false
	}
	s := k.find(p.Tenant)
	if s == nil || s.Inflight == 0 {
		return false
	}
	s.Inflight--
	s.spares++
	k.permits--
	k.spares++
	r.permits--
	r.spares++
	k.moved = true
	k.uses++
	k.used += r.now - p.Since
	if r.nextAging == 0 {
		r.nextAging = r.now + agingInterval
		r.waker.WakeBy(r.nextAging)
	}
	return true
}

// take gives a spare to an acquire; false: it has to ask the record.
func (r *Records) take(t *Ticket) bool {
	k := t.Key
	s := k.spareOf(t.Tenant)
	if s == nil {
		return false
	}
	if !r.seatLasts() {
		if r.ensureSeat(k.Pool) != stored {
			return false
		}
		if s = k.spareOf(t.Tenant); s == nil { // it went with the seat
			return false
		}
	}
	s.spares--
	s.least = min(s.least, s.spares)
	s.Inflight++
	s.Weight = t.Weight
	k.spares--
	k.permits++
	r.spares--
	r.permits++
	k.moved, k.asked = true, r.now
	t.Seq = r.seat.nextTicket()
	return true
}

// forfeit notes that the record counts none of a key's spares.
func (r *Records) forfeit(k *Key) {
	r.plan(k, false)
	r.settle(k)
	r.noteAhead(k, false)
}

// plan says how many spares the next reconcile of a key leaves here: those that were needed lately, or none.
//
//go:noinline // as stopWaiting
func (r *Records) plan(k *Key, aging bool) {
	for i := range k.shares {
		s := &k.shares[i]
		if s.kept = 0; aging {
			s.kept = s.spares - s.least
		}
	}
}

// tellsUses reports whether the next reconcile tells what was used here without the record: with spares that go back,
// or when it is much. Otherwise nothing might have to be stored.
//
//go:noinline // as stopWaiting
func (k *Key) tellsUses() bool {
	kept := 0
	for i := range k.shares {
		kept += int(k.shares[i].kept)
	}
	return k.uses >= usesMost || k.uses > 0 && kept < k.spares
}

// settle carries out what was planned, once it is stored.
func (r *Records) settle(k *Key) {
	if k.tellsUses() {
		k.uses, k.used = 0, 0
	}
	r.spares -= k.spares
	k.spares, k.moved = 0, false
	for i := range k.shares {
		s := &k.shares[i]
		s.spares, s.least = s.kept, s.kept
		k.spares += int(s.kept)
	}
	r.spares += k.spares
}

// noteAhead notes whether the record lets this context keep spares for a key.
//
//go:noinline // as stopWaiting
func (r *Records) noteAhead(k *Key, ahead bool) {
	if k.ahead == ahead {
		return
	}
	if k.ahead = ahead; ahead {
		r.aheadKeys = append(r.aheadKeys, k)
	} else {
		r.aheadKeys = without(r.aheadKeys, k)
	}
}

// tellRecall tells a worker to give its spares of a key back, by the name of the record: a message may outlive what it
// is about, and anybody can send one.
func (r *Records) tellRecall(w admission.Worker, k *Key) {
	if w != r.seat.me {
		m := &r.mailbox
		m.text = append(m.text[:0], k.data...)
		m.send(w.Seat, r.cfg.Domain, m.text)
	} else if own := r.aheadKey(k.data); own != nil {
		r.recalled(own)
	}
}

// aheadKey finds the key whose record is stored under a name, if this context may have spares there.
//
//go:noinline // as stopWaiting
func (r *Records) aheadKey(data string) *Key {
	for _, k := range r.aheadKeys {
		if k.data == data {
			return k
		}
	}
	return nil
}

// recalled notes that a key's spares are to be given back, in the next turn.
//
//go:noinline // as stopWaiting
func (r *Records) recalled(k *Key) {
	if r.noteAhead(k, false); k.spares > 0 {
		r.mark(k, r.now)
	}
}

// ageSpares gives back the spares that were not needed lately, and all of a key that is no longer warm.
func (r *Records) ageSpares() {
	if r.nextAging == 0 {
		return
	}
	if r.now >= r.nextAging {
		if r.aging == 0 {
			r.aging = len(r.aheadKeys)
		}
		for n := 0; n < agingMost && r.aging > 0; n++ {
			if r.aging--; r.aging < len(r.aheadKeys) { // the list gets shorter meanwhile
				r.age(r.aheadKeys[r.aging])
			}
		}
		switch {
		case r.aging > 0:
			r.nextAging = r.now
		case r.spares > 0:
			r.nextAging = r.now + agingInterval
		default:
			r.nextAging = 0
			return
		}
	}
	r.waker.WakeBy(r.nextAging)
}

// age gives back the spares of one key that were not needed since it was last looked at. If its column is not marked
// any more, a recall was lost, and all go back.
func (r *Records) age(k *Key) {
	if k.moved || k.spares > 0 {
		r.reconcileWith(k, r.warm(k))
	}
}
