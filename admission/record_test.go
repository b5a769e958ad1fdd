package admission_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/admissiontest"
)

// someRecords are records with something of everything in them.
func someRecords(t testing.TB) [][]byte {
	g := newRig(t)
	g.limit, g.queue, g.fair = 4, 8, true
	a, b := g.add(), g.add()
	records := [][]byte{}
	keep := func() { records = append(records, slices.Clone(g.state)) }
	g.arrive(a, 1, admission.Second)
	keep()
	for tenant := range uint64(4) {
		g.arrive(b, tenant+1, admission.Second)
		g.arrive(a, tenant+1, admission.Second)
	}
	keep()
	g.release(a, 0, 20*admission.Millisecond, true, 0)
	g.release(b, 0, 30*admission.Millisecond, false, 0)
	keep()
	g.now += 50 * ms
	g.sync(a)
	g.sync(b)
	keep()
	g.drain()
	g.do(g.op(admission.OpRetire, nil))
	keep()
	return records
}

// TestRecordRoundTrip: what is decoded and encoded again is the same bytes, and decoding shares no memory.
func TestRecordRoundTrip(t *testing.T) {
	for _, b := range someRecords(t) {
		var r admission.Record
		given := slices.Clone(b)
		if err := r.Decode(given); err != nil {
			t.Fatal(err)
		}
		clear(given)
		if again := r.Append([]byte("before")); !bytes.Equal(again, append([]byte("before"), b...)) {
			t.Errorf("% x\nthen % x", b, again)
		}
	}
}

// abuse runs every operation on bytes, however damaged: no panic, and what is written can be read.
func abuse(t testing.TB, m *admission.Machine, b []byte) {
	var r admission.Record
	sound := r.Decode(b) == nil
	gens := []uint32{1}
	if sound {
		gens = append(gens, r.Gen, r.Gen+1)
	}
	for kind := admission.OpAcquire; kind <= admission.OpRetire; kind++ {
		for _, gen := range gens {
			for slot := range uint16(3) {
				op := &admission.Op{Kind: kind, Target: admission.Target{Now: 1010 * ms, Gen: gen, Name: "k", Me: admission.Worker{Seat: slot, Epoch: uint64(slot+1) << 32}, Limit: 3}, Assert: slot == 1, Queue: 4, Fair: true, Budget: admission.Second, Tenant: uint64(slot), Weight: 1, Seq: 2, Inflight: []admission.TenantInflight{{Tenant: 1, Weight: 2, Inflight: 1}, {Tenant: 2}}, Waiting: []admission.Ticket{{Seq: 2, Tenant: 1, Deadline: 2000 * ms}}, Live: admissiontest.Alive(admission.Worker{Seat: 0, Epoch: 1 << 32})}
				next, e := m.Step(b, op)
				if !e.Changed {
					continue
				}
				if len(next) > len(b)+1000 {
					t.Fatalf("%d bytes became %d", len(b), len(next))
				}
				if sound {
					if err := r.Decode(next); err != nil {
						t.Fatalf("%s on a sound record % x wrote % x: %v", describe(op), b, next, err)
					}
				}
				// A tend reads all of a record, so that no damage lives on.
				after, f := new(admission.Machine).Step(next, &admission.Op{Kind: admission.OpMaintain, Target: admission.Target{Now: op.Now, Gen: op.Gen, Name: "k"}})
				if f.Changed {
					next = after
				}
				if f.Verdict == admission.VerdictDone && r.Decode(next) != nil {
					t.Fatalf("%s left damage: % x", describe(op), next)
				}
			}
		}
	}
	m.Look(b, &admission.Target{Gen: 1, Me: admission.Worker{Seat: 1, Epoch: 2 << 32}}, 2)
}

// TestDamagedRecord: every truncation and every flipped bit of a record is noticed, or does no harm.
func TestDamagedRecord(t *testing.T) {
	var m admission.Machine
	refused, tried := 0, 0
	for _, b := range someRecords(t) {
		for n := range b {
			abuse(t, &m, b[:n])
		}
		for bit := range len(b) * 8 {
			damaged := slices.Clone(b)
			damaged[bit/8] ^= 1 << (bit % 8)
			abuse(t, &m, damaged)
			tried++
			var r admission.Record
			if r.Decode(damaged) != nil {
				refused++
			}
		}
		abuse(t, &m, append(slices.Clone(b), 0))
	}
	t.Logf("%d of %d flipped bits noticed", refused, tried)
}

// TestRecordOfAnotherVersion is replaced, and that is told.
func TestRecordOfAnotherVersion(t *testing.T) {
	b := someRecords(t)[0]
	b[0]++
	var m admission.Machine
	next, e := m.Step(b, &admission.Op{Kind: admission.OpAcquire, Target: admission.Target{Now: ms, Me: admission.Worker{Epoch: 1}, Limit: 2}, Seq: 1, Assert: true, Weight: 1})
	var r admission.Record
	if !e.Replaced || e.Verdict != admission.VerdictGranted || e.Gen != 0 || r.Decode(next) != nil || r.Inflight() != 1 {
		t.Fatalf("%+v", e)
	}
}

// TestLostRecord: a sync that finds no record counts anew what its worker has. Others will come to do the same, so no
// more is granted than all have said they run, but somebody always is, and an acquire asserts the limit.
func TestLostRecord(t *testing.T) {
	var m admission.Machine
	var state []byte
	sync := func(slot uint16, runs, waits, limit int) *admission.Effect {
		op := &admission.Op{Kind: admission.OpReconcile, Target: admission.Target{Now: ms, Me: admission.Worker{Seat: slot, Epoch: 1}, Limit: limit}, Inflight: []admission.TenantInflight{{Weight: 1, Inflight: uint32(runs)}}}
		for i := range waits {
			op.Waiting = append(op.Waiting, admission.Ticket{Seq: uint32(i + 1), Deadline: 100 * ms})
		}
		next, e := m.Step(state, op)
		if e.Changed {
			state = slices.Clone(next)
		}
		return e
	}
	if e := sync(0, 0, 2, 0); len(e.Grants) != 0 || e.Queued != 2 {
		t.Errorf("closed: %+v", e)
	}
	state = nil
	if e := sync(0, 0, 2, 5); len(e.Grants) != 1 || e.Queued != 1 {
		t.Errorf("nobody runs: %+v", e)
	}
	state = nil
	if e := sync(0, 2, 2, 5); len(e.Grants) != 0 || e.Inflight != 2 || e.Queued != 2 {
		t.Errorf("two run: %+v", e)
	}
	if e := sync(1, 1, 0, 5); len(e.Grants) != 0 || e.Inflight != 3 || e.Queued != 2 {
		t.Errorf("a third one runs: %+v", e)
	}
	if e := sync(1, 0, 0, 5); len(e.Grants) != 1 || e.Inflight != 3 {
		t.Errorf("the third one ends: %+v", e)
	}
	_, e := m.Step(state, &admission.Op{Kind: admission.OpAcquire, Target: admission.Target{Now: ms, Me: admission.Worker{Seat: 1, Epoch: 1}, Limit: 5}, Assert: true, Weight: 1, Seq: 9})
	if e.Verdict != admission.VerdictGranted || len(e.Grants) != 1 || e.Inflight != 5 {
		t.Errorf("the limit is asserted: %+v", e)
	}
}

// TestNamesAreClipped to what a length byte can say.
func TestNamesAreClipped(t *testing.T) {
	var m admission.Machine
	long := strings.Repeat("n", 300)
	next, _ := m.Step(nil, &admission.Op{Kind: admission.OpMaintain, Target: admission.Target{Name: long, Limit: 1}})
	var r admission.Record
	if err := r.Decode(next); err != nil || string(r.Name) != long[:admission.MaxName] {
		t.Fatalf("%v, name of %d bytes", err, len(r.Name))
	}
	var d admission.Directory
	place := d.Add(long)
	again := d.Append(nil)
	d.Decode(again)
	if found, ok := d.Lookup(long); !ok || found != place {
		t.Fatalf("%v %v", found, ok)
	}
}

// TestCase_O14_BigNumbers: limits, queues and budgets at and beyond their ends neither wrap nor allocate.
func TestCase_O14_BigNumbers(t *testing.T) {
	const huge = int(^uint(0) >> 1)
	for _, limit := range []int{1, admission.MaxLimit, 1 << 31, 1<<32 + 1, huge} {
		for _, queue := range []int{1, 1<<31 - 1, 1 << 32, huge} {
			var m admission.Machine
			op := &admission.Op{Kind: admission.OpAcquire, Target: admission.Target{Now: 1 << 62, Me: admission.Worker{Epoch: 1}, Limit: limit}, Seq: 1, Assert: true, Queue: queue, Fair: true, Budget: admission.Duration(huge), Weight: 1 << 31, Tenant: 1}
			next, e := m.Step(nil, op)
			if e.Verdict != admission.VerdictGranted || len(next) > 200 {
				t.Fatalf("limit %d queue %d: %+v, %d bytes", limit, queue, e, len(next))
			}
			state := slices.Clone(next)
			op.Seq, op.Tenant = 2, 2
			_, e = m.Step(state, op)
			if want := map[bool]admission.Verdict{true: admission.VerdictWaiting, false: admission.VerdictGranted}[limit == 1]; e.Verdict != want {
				t.Fatalf("limit %d queue %d: %+v", limit, queue, e)
			}
			op.Limit, op.Seq = -5, 3
			if _, e = m.Step(state, op); e.Verdict != admission.VerdictClosed {
				t.Fatalf("a negative limit: %+v", e)
			}
		}
	}
}

// TestTenantTableIsBounded: tenants beyond the table share one entry, and no permit is lost by that, whoever is counted
// where when it is given back or counted anew.
func TestTenantTableIsBounded(t *testing.T) {
	const tenants = 1500
	var m admission.Machine
	var state []byte
	seq := uint32(0)
	me := admission.Worker{Seat: 3, Epoch: 1 << 32}
	step := func(op *admission.Op) *admission.Effect {
		op.Now, op.Me, op.Limit, op.Queue, op.Fair = 1000*ms, me, 4000, 10, true
		next, e := m.Step(state, op)
		if e.Changed {
			state = slices.Clone(next)
		}
		return e
	}
	decode := func() *admission.Record {
		var r admission.Record
		if err := r.Decode(state); err != nil {
			t.Fatal(err)
		}
		return &r
	}
	for tenant := range uint64(tenants) {
		seq++
		if e := step(&admission.Op{Kind: admission.OpAcquire, Tenant: tenant + 1, Weight: 1, Seq: seq}); e.Verdict != admission.VerdictGranted {
			t.Fatalf("tenant %d: %+v", tenant, e)
		}
	}
	if r := decode(); len(r.Tenants) != 1024 || r.Inflight() != tenants || r.Tenants[1023].Inflight != tenants-1023 {
		t.Fatalf("%d tenants, %d used", len(r.Tenants), r.Inflight())
	}
	// Early tenants leave, so that there is room; late ones get entries of their own while they are counted as shared.
	for tenant := range uint64(200) {
		step(&admission.Op{Kind: admission.OpRelease, Target: admission.Target{Expect: true}, Tenant: tenant + 1})
	}
	running := map[uint64]uint32{}
	for tenant := uint64(201); tenant <= tenants; tenant++ {
		running[tenant] = 1
	}
	for tenant := uint64(1400); tenant <= 1500; tenant++ {
		seq++
		step(&admission.Op{Kind: admission.OpAcquire, Target: admission.Target{Expect: true}, Tenant: tenant, Weight: 1, Seq: seq})
		running[tenant]++
	}
	if r := decode(); r.Inflight() != tenants-200+101 {
		t.Fatalf("%d used", r.Inflight())
	}
	shares := []admission.TenantInflight{}
	for tenant := uint64(201); tenant <= tenants; tenant++ {
		shares = append(shares, admission.TenantInflight{Tenant: tenant, Weight: 1, Inflight: running[tenant]})
	}
	step(&admission.Op{Kind: admission.OpReconcile, Inflight: shares})
	if r := decode(); r.Inflight() != tenants-200+101 {
		t.Fatalf("%d used after a sync", r.Inflight())
	}
	step(&admission.Op{Kind: admission.OpReconcile, Inflight: shares})
	for _, s := range shares {
		for range s.Inflight {
			step(&admission.Op{Kind: admission.OpRelease, Target: admission.Target{Expect: true}, Tenant: s.Tenant})
		}
	}
	step(&admission.Op{Kind: admission.OpReconcile})
	if r := decode(); r.Inflight() != 0 || !r.Idle() || len(r.Tenants) > 1024 {
		t.Fatalf("%d used, %d tenants in the end", r.Inflight(), len(r.Tenants))
	}
	idle := 0
	for _, tenant := range decode().Tenants {
		if tenant.Weight > 0 {
			idle++
		}
	}
	if idle > 64 {
		t.Fatalf("%d idle tenants are remembered", idle)
	}
}

// TestRefusalChangesNothing: a flood of new tenants that are refused costs no swap and leaves no trace.
func TestRefusalChangesNothing(t *testing.T) {
	g := newRig(t)
	g.limit, g.queue, g.fair = 1, 0, true
	w := g.add()
	g.arrive(w, 1, 0)
	before := slices.Clone(g.state)
	for tenant := range uint64(100) {
		g.arrive(w, tenant+2, admission.Second)
		if g.last.Changed {
			t.Fatalf("tenant %d: the record changed", tenant)
		}
	}
	if !bytes.Equal(before, g.state) {
		t.Fatal("the record changed")
	}
}

// TestOvertaking: with more tenants than a record remembers, coming and going, I6 holds all the same. It would not if
// those forgotten came back as if they had never been granted.
func TestOvertaking(t *testing.T) {
	if why := comeAndGo(100, 400, func(b []byte) []byte { return b }); why != "" {
		t.Error(why)
	}
	why := comeAndGo(100, 400, func(b []byte) []byte {
		return changed(b, func(r *admission.Record) { r.Forgotten = 0 })
	})
	if !strings.Contains(why, "I6:") {
		t.Errorf("not caught: %q", why)
	}
}

// comeAndGo has one tenant wait for the one permit while many others come for a short stream each, in turn, and returns
// what the watch says of I6.
func comeAndGo(tenants uint64, rounds int, mutate func([]byte) []byte) (why string) {
	var m admission.Machine
	var watch admissiontest.Watch
	var state []byte
	now, seq := 1000*ms, uint32(0)
	tenantOf := map[uint32]uint64{}
	running := uint64(0)
	step := func(op *admission.Op) {
		now += ms
		op.Now, op.Me, op.Limit, op.Queue, op.Fair, op.Weight = now, admission.Worker{Seat: 0, Epoch: 1 << 32}, 1, 4096, true, 1
		next, e := m.Step(mutate(state), op)
		if err := watch.Step(state, op, next, e); err != nil {
			for line := range strings.Lines(err.Error()) {
				if strings.HasPrefix(line, "I6:") && why == "" {
					why = line
				}
			}
		}
		if e.Changed {
			state = slices.Clone(next)
		}
		if op.Kind == admission.OpAcquire && e.Verdict == admission.VerdictGranted {
			running = op.Tenant
		}
		for _, g := range e.Grants {
			running = tenantOf[g.Seq]
		}
	}
	ask := func(tenant uint64) {
		seq++
		tenantOf[seq] = tenant
		step(&admission.Op{Kind: admission.OpAcquire, Seq: seq, Tenant: tenant, Budget: admission.Hour})
	}
	const victim = 1000
	ask(victim)
	ask(1)
	for round := range rounds {
		released := running
		step(&admission.Op{Kind: admission.OpRelease, Tenant: running})
		if released == victim {
			ask(victim) // it waits again at once
		}
		ask(uint64(round)%tenants + 1)
	}
	return why
}

// FuzzRecord: any bytes are no record, or one that no operation can trip over.
func FuzzRecord(f *testing.F) {
	for _, b := range someRecords(f) {
		f.Add(b)
	}
	f.Add([]byte{admission.RecordVersion})
	f.Fuzz(func(t *testing.T, b []byte) { abuse(t, &admission.Machine{}, b) })
}

// FuzzSteps plays operations read from bytes against the core and the model.
func FuzzSteps(f *testing.F) {
	f.Add([]byte("\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff"))
	f.Add([]byte{2, 4, 1, 0, 0, 0, 1, 0, 2, 0, 3, 1, 0, 4, 0, 1, 1, 0, 7, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < 3 || len(b) > 200 {
			return
		}
		g := newRig(t)
		g.limit, g.queue, g.fair = int(b[0]%5), int(b[1]%6), b[2]%2 == 0
		g.add()
		g.add()
		for b = b[3:]; len(b) >= 2; b = b[2:] {
			playByte(g, b[0], int(b[1]))
		}
		g.drain()
	})
}

// playByte carries out one action.
func playByte(g *rig, what byte, arg int) {
	w := g.workers[int(what>>4)%len(g.workers)]
	some := func(n int) (int, bool) { return arg % max(n, 1), n > 0 }
	switch what % 12 {
	case 0, 1, 2:
		g.arrive(w, uint64(arg%4)+1, admission.Duration(arg/4)*admission.Millisecond)
	case 3, 4:
		if i, ok := some(len(w.running)); ok {
			g.release(w, i, admission.Duration(arg%3*arg/3)*admission.Millisecond, arg%2 == 0, arg%3)
		}
	case 5:
		if i, ok := some(len(w.waiting)); ok {
			g.cancel(w, i)
		}
	case 6:
		if i, ok := some(len(w.waiting)); ok {
			g.look(w, i)
		}
	case 7:
		g.expire(w)
		g.sync(w)
	case 8:
		g.now += int64(arg) * ms / 4
	case 9:
		g.limit = arg % 6
		g.tend(nil, true)
	case 10:
		w.alive = false
		g.tend(nil, false)
		w.alive = true
	case 11:
		g.claims++
		w.Epoch = g.claims<<32 | uint64(arg)
		if arg%2 == 0 {
			g.sync(w)
		} else if e := g.do(g.op(admission.OpRetire, nil)); e.Verdict == admission.VerdictDone {
			g.gen++
		}
	}
}
