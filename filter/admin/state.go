package admin

import (
	"strconv"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/config"
	"github.com/headgate/headgate/filter/abi"
	"github.com/headgate/headgate/filter/journal"
	"github.com/headgate/headgate/filter/records"
)

const (
	keysOnAPage = 200
	mostKeys    = 1000 // on a page
	mostTenants = 50   // of a key
)

var (
	modeNames      = [...]string{"enforce", "shadow", "disabled"}
	perNames       = [...]string{"request", "attempt"}
	dimensionNames = [...]string{"tenant", "model", "route", "class"}
	breakerNames   = [...]string{"closed", "open", "half_open"}
	sourceNames    = [...]string{"config", "override", "override", "fleet"}
)

// A place is where a page of keys begins: a pool's number and a place in its keys.
type place struct{ pool, key int }

// readPlace reads what a state gave as next. Anything else is the beginning.
func readPlace(s string) (p place) {
	pool, key := cut(s, '.')
	n, ok := wholeNumber(pool)
	m, ok2 := wholeNumber(key)
	if !ok || !ok2 || n >= 1<<20 || m >= 1<<20 {
		return place{}
	}
	return place{int(n), int(m)}
}

// writeState writes the state of all pools, with one page of their keys.
func (s *Stage) writeState(q *query) {
	w := &s.out
	w.raw("{")
	w.number("now_ms", abi.WallMillis())
	w.text("domain", s.cfg.Domain)
	w.text("mode", modeNames[s.cfg.Mode])
	w.number("workers", int64(s.asker.Workers()))
	abi.HandOver() // what this VM has counted; the other workers have done so when they were asked
	waits := s.gatherWaits()
	room := keysOnAPage
	if q.limit > 0 {
		room = min(q.limit, mostKeys)
	}
	from, next := readPlace(q.after), ""
	w.open("pools", "[")
	for i, o := range s.pools {
		if q.hasPool && o.Name != q.pool {
			continue
		}
		w.next()
		w.raw("{")
		s.writePool(o, waits[i])
		w.open("keys", "[")
		switch {
		case q.hasKey:
			s.writeKeyNamed(o, q.key)
		case next == "" && i >= from.pool:
			at := 0
			if i == from.pool {
				at = from.key
			}
			if at = s.writeKeys(o, at, &room); at >= 0 {
				next = strconv.Itoa(i) + "." + strconv.Itoa(at)
			}
		}
		w.raw("]}")
	}
	w.raw("]")
	w.present("next", next)
	w.raw("}")
}

// writePool writes the members of a pool but for its keys.
func (s *Stage) writePool(o *Pool, waits *waits) {
	w, c := &s.out, o.Pool.Pool
	limit, source := s.records.DefaultLimit(o.Pool)
	w.text("name", c.Name)
	w.number("limit", int64(limit))
	w.text("source", sourceNames[source])
	w.number("configured", int64(c.Limit))
	w.open("key", "[")
	for _, d := range c.Key {
		w.next()
		w.quote(dimensionNames[d])
	}
	w.raw("]")
	w.text("per", perNames[c.Per])
	w.number("queue", int64(c.Queue))
	w.number("max_wait_ms", int64(c.MaxWait/admission.Millisecond))
	w.boolean("fair", c.FairBy)
	w.boolean("holds", hasHolds(c))
	w.boolean("breaker", c.Breaker != nil)
	sum := s.records.Sum(o.Pool)
	w.number("inflight", int64(sum.Inflight))
	w.number("queued", int64(sum.Queued))
	w.number("on_hold", int64(sum.OnHold))
	w.number("keys_total", int64(sum.Keys))
	w.open("outcomes", "{")
	for i, name := range Outcomes {
		w.number(name, abi.Metric(o.Counters[i]))
	}
	w.raw("}")
	s.writeWaits(waits)
}

func hasHolds(c *config.Pool) bool {
	return c.Hold.Success > 0 || c.Hold.Cancel > 0 || c.Hold.Failure > 0
}

// writeKeys writes keys from a place on, as many as there is room for, and returns where to go on; -1: those were all.
func (s *Stage) writeKeys(o *Pool, from int, room *int) (next int) {
	return s.records.LookFrom(o.Pool, from, *room, func(k *records.KeyState) {
		*room--
		s.out.next()
		s.writeKey(o, k)
	})
}

// writeKeyNamed writes the one key of that name, if it is there.
func (s *Stage) writeKeyNamed(o *Pool, name string) {
	var k records.KeyState
	if s.records.LookAt(o.Pool, name, &k) {
		s.writeKey(o, &k)
	}
}

// writeKey writes the state of a key.
func (s *Stage) writeKey(o *Pool, k *records.KeyState) {
	w := &s.out
	w.raw("{")
	w.text("key", k.Name)
	w.number("limit", int64(k.Limit))
	w.text("source", sourceNames[k.Source])
	w.number("configured", int64(k.Configured))
	w.number("inflight", int64(k.Inflight))
	w.number("queued", int64(k.Queued))
	w.number("on_hold", int64(k.OnHold))
	w.number("oldest_wait_ms", millis(k.OldestWait))
	w.text("breaker", breakerNames[k.Breaker])
	w.number("breaker_change_ms", millis(k.BreakerChange))
	w.number("usable", int64(k.Usable))
	w.number("headroom_change_ms", millis(k.HeadroomChange))
	w.number("penalty_ms", millis(k.PenaltyEnd))
	w.number("hold_change_ms", millis(k.HoldEnd))
	s.writeTenants(o, k.Tenants)
	w.raw("}")
}

// millis is a time to come, or one that has passed, in milliseconds: at least 1 unless it is 0.
func millis(d admission.Duration) int64 {
	return int64((d + admission.Millisecond - 1) / admission.Millisecond)
}

// writeTenants writes who has something of a key: who has most comes first. In a pool that isn't fair by tenant nobody
// knows.
func (s *Stage) writeTenants(o *Pool, all []admission.TenantShare) {
	w := &s.out
	total := 0
	if o.FairBy {
		total = sortTenants(all)
	}
	w.open("tenants", "[")
	for i := range min(total, mostTenants) {
		t := &all[i]
		w.next()
		w.raw("{")
		w.text("tenant", s.tenantName(t.ID))
		w.number("inflight", int64(t.Inflight))
		w.number("queued", int64(t.Queued))
		w.number("weight", int64(t.Weight))
		w.raw("}")
	}
	w.raw("]")
	w.number("tenants_total", int64(total))
}

// sortTenants puts those first who have most inflight, and then most queued. It returns how many have either.
func sortTenants(all []admission.TenantShare) (n int) {
	for i := range all {
		if t := all[i]; t.Inflight+t.Queued > 0 {
			all[i], all[n] = all[n], t
			n++
		}
	}
	// Only the first ones have to be in order: they are all that is shown.
	for at := range min(n, mostTenants) {
		best := at
		for i := at + 1; i < n; i++ {
			if ahead(&all[i], &all[best]) {
				best = i
			}
		}
		all[at], all[best] = all[best], all[at]
	}
	return n
}

func ahead(a, b *admission.TenantShare) bool {
	switch {
	case a.Inflight != b.Inflight:
		return a.Inflight > b.Inflight
	case a.Queued != b.Queued:
		return a.Queued > b.Queued
	}
	return a.ID < b.ID
}

// tenantName is a tenant's name, or a stand-in where no worker knows it any more.
func (s *Stage) tenantName(id uint64) string {
	if t := s.names.at(id); t.hash == id && id != 0 {
		return t.name
	}
	b := []byte("#")
	for shift := 60; shift >= 0; shift -= 4 {
		b = append(b, "0123456789abcdef"[id>>shift&15])
	}
	return string(b)
}

// waits are the waits for one pool of all workers.
type waits [journal.Slots][journal.Buckets]uint32

// gatherWaits adds up what the workers report of waits, by the pools' numbers; nil: there were none.
//
//go:noinline // as raw
func (s *Stage) gatherWaits() []*waits {
	all := make([]*waits, len(s.pools))
	current := s.now / journal.SlotNanos
	s.asker.EachReport(func(r *journal.Report) {
		journal.EachWait(r.Waits, func(pool string, slot int64, bucket int, n uint32) {
			age := current - slot
			for i, o := range s.pools {
				if o.Name != pool || age < 0 || age >= journal.Slots {
					continue
				}
				if all[i] == nil {
					all[i] = &waits{}
				}
				all[i][age][bucket] += n
			}
		})
	})
	return all
}

// writeWaits writes how long requests waited, by the slots in which they were admitted.
func (s *Stage) writeWaits(all *waits) {
	w := &s.out
	w.open("waits", "{")
	w.number("slot_ms", journal.SlotNanos/millisecond)
	w.open("slots", "[")
	for age := 0; all != nil && age < journal.Slots; age++ {
		counts := &all[age]
		n := uint32(0)
		for _, c := range counts {
			n += c
		}
		if n == 0 {
			continue
		}
		w.next()
		w.raw("{")
		w.number("age_ms", int64(age)*journal.SlotNanos/millisecond)
		w.number("n", int64(n))
		w.number("p50_ms", quantile(counts, n, 50))
		w.number("p90_ms", quantile(counts, n, 90))
		w.number("p99_ms", quantile(counts, n, 99))
		w.raw("}")
	}
	w.raw("]}")
}

// quantile is the wait that so many of 100 don't exceed.
func quantile(counts *[journal.Buckets]uint32, n uint32, of100 uint64) int64 {
	rank := (uint64(n)*of100 + 99) / 100
	seen := uint64(0)
	for bucket, c := range counts {
		if seen += uint64(c); seen >= rank {
			return journal.BucketMillis(bucket)
		}
	}
	return 0
}
