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
	g.reconcile(a)
	g.reconcile(b)
	keep()
	g.drain()
	g.do(admission.Retire(g.now, g.gen))
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
	valid := r.Decode(b) == nil
	gens := []uint32{1}
	if valid {
		gens = append(gens, r.Gen, r.Gen+1)
	}
	for _, gen := range gens {
		for seat := range uint16(3) {
			for _, op := range everyOperation(gen, seat) {
				abuseWith(t, m, b, valid, &op)
			}
		}
	}
	m.Look(b, &admission.Target{Gen: 1, Me: admission.Worker{Seat: 1, Epoch: 2 << 32}}, 2)
}

// everyOperation is one operation of each kind, by the worker in a seat.
func everyOperation(gen uint32, seat uint16) []admission.Op {
	me := admission.Worker{Seat: seat, Epoch: uint64(seat+1) << 32}
	target := admission.Target{Now: 1010 * ms, Gen: gen, Name: "k", Me: me, Limit: 3}
	live := admissiontest.Alive(admission.Worker{Seat: 0, Epoch: 1 << 32})
	tenant := uint64(seat)
	ops := []admission.Op{
		admission.Acquire(target, admission.Request{Tenant: tenant, Weight: 1, Seq: 2, Queue: 4, Fair: true,
			Budget: admission.Second}),
		admission.Release(target, tenant, 2, admission.Finish{}),
		admission.Cancel(target, tenant, 2),
		admission.Expire(target),
		admission.Reconcile(target, admission.Truth{
			Inflight: []admission.TenantInflight{{Tenant: 1, Weight: 2, Inflight: 1}, {Tenant: 2}},
			Waiting:  []admission.Ticket{{Seq: 2, Tenant: 1, Deadline: 2000 * ms}},
		}),
		admission.Maintain(target, seat == 1, live),
		admission.Report(target, 2, admission.OutcomeNone),
		admission.Retire(target.Now, gen),
	}
	for i := range ops { // beyond what callers do: every one asserts, or reaps
		ops[i].Assert, ops[i].Live = seat == 1, live
	}
	return ops
}

// abuseWith runs one operation on bytes; valid says that they are a record.
func abuseWith(t testing.TB, m *admission.Machine, b []byte, valid bool, op *admission.Op) {
	next, e := m.Step(b, op)
	if !e.Changed {
		return
	}
	if len(next) > len(b)+1000 {
		t.Fatalf("%d bytes became %d", len(b), len(next))
	}
	var r admission.Record
	if valid {
		if err := r.Decode(next); err != nil {
			t.Fatalf("%s on a valid record % x wrote % x: %v", describe(op), b, next, err)
		}
	}
	// A maintain reads all of a record, so that no damage lives on.
	maintain := admission.Maintain(admission.Target{Now: op.Now, Gen: op.Gen, Name: "k"}, false, nil)
	after, f := new(admission.Machine).Step(next, &maintain)
	if f.Changed {
		next = after
	}
	if f.Verdict == admission.VerdictDone && r.Decode(next) != nil {
		t.Fatalf("%s left damage: % x", describe(op), next)
	}
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

// TestRecordOfAnotherVersion: it is replaced, and the effect says so.
func TestRecordOfAnotherVersion(t *testing.T) {
	b := someRecords(t)[0]
	b[0]++
	var m admission.Machine
	target := admission.Target{Now: ms, Me: admission.Worker{Epoch: 1}, Limit: 2}
	op := admission.Acquire(target, admission.Request{Seq: 1, Weight: 1})
	next, e := m.Step(b, &op)
	var r admission.Record
	if !e.Replaced || e.Verdict != admission.VerdictGranted || e.Gen != 0 || r.Decode(next) != nil || r.Inflight() != 1 {
		t.Fatalf("%+v", e)
	}
}

// TestLostRecord: a reconcile that finds no record counts anew what its worker has. Others will do the same, so no more
// is granted than all have said they run. But one always is, and an acquire asserts the limit.
func TestLostRecord(t *testing.T) {
	var m admission.Machine
	var state []byte
	target := func(seat uint16, limit int) admission.Target {
		return admission.Target{Now: ms, Me: admission.Worker{Seat: seat, Epoch: 1}, Limit: limit}
	}
	reconcile := func(seat uint16, runs, waits, limit int) *admission.Effect {
		truth := admission.Truth{Inflight: []admission.TenantInflight{{Weight: 1, Inflight: uint32(runs)}}}
		for i := range waits {
			truth.Waiting = append(truth.Waiting, admission.Ticket{Seq: uint32(i + 1), Deadline: 100 * ms})
		}
		op := admission.Reconcile(target(seat, limit), truth)
		next, e := m.Step(state, &op)
		if e.Changed {
			state = slices.Clone(next)
		}
		return e
	}
	if e := reconcile(0, 0, 2, 0); len(e.Grants) != 0 || e.Queued != 2 {
		t.Errorf("closed: %+v", e)
	}
	state = nil
	if e := reconcile(0, 0, 2, 5); len(e.Grants) != 1 || e.Queued != 1 {
		t.Errorf("nobody runs: %+v", e)
	}
	state = nil
	if e := reconcile(0, 2, 2, 5); len(e.Grants) != 0 || e.Inflight != 2 || e.Queued != 2 {
		t.Errorf("two run: %+v", e)
	}
	if e := reconcile(1, 1, 0, 5); len(e.Grants) != 0 || e.Inflight != 3 || e.Queued != 2 {
		t.Errorf("a third one runs: %+v", e)
	}
	if e := reconcile(1, 0, 0, 5); len(e.Grants) != 1 || e.Inflight != 3 {
		t.Errorf("the third one ends: %+v", e)
	}
	op := admission.Acquire(target(1, 5), admission.Request{Weight: 1, Seq: 9})
	_, e := m.Step(state, &op)
	if e.Verdict != admission.VerdictGranted || len(e.Grants) != 1 || e.Inflight != 5 {
		t.Errorf("the limit is asserted: %+v", e)
	}
}

// TestNamesAreClipped: names are cut to what a length byte can say.
func TestNamesAreClipped(t *testing.T) {
	var m admission.Machine
	long := strings.Repeat("n", 300)
	op := admission.Maintain(admission.Target{Name: long, Limit: 1}, false, nil)
	next, _ := m.Step(nil, &op)
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
			op := admission.Acquire(admission.Target{Now: 1 << 62, Me: admission.Worker{Epoch: 1}, Limit: limit},
				admission.Request{Tenant: 1, Weight: 1 << 31, Seq: 1, Queue: queue, Fair: true, Budget: admission.Duration(huge)})
			next, e := m.Step(nil, &op)
			if e.Verdict != admission.VerdictGranted || len(next) > 250 {
				t.Fatalf("limit %d queue %d: %+v, %d bytes", limit, queue, e, len(next))
			}
			state := slices.Clone(next)
			op.Seq, op.Tenant = 2, 2
			_, e = m.Step(state, &op)
			want := admission.VerdictGranted
			if limit == 1 {
				want = admission.VerdictWaiting
			}
			if e.Verdict != want {
				t.Fatalf("limit %d queue %d: %+v", limit, queue, e)
			}
			op.Limit, op.Seq = -5, 3
			if _, e = m.Step(state, &op); e.Verdict != admission.VerdictClosed {
				t.Fatalf("a negative limit: %+v", e)
			}
		}
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

// FuzzRecord: any bytes are no record, or one that no operation can trip over.
func FuzzRecord(f *testing.F) {
	for _, b := range someRecords(f) {
		f.Add(b)
	}
	f.Add([]byte{admission.RecordVersion})
	f.Fuzz(func(t *testing.T, b []byte) { abuse(t, &admission.Machine{}, b) })
}
