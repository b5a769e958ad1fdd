package admission_test

import (
	"strconv"
	"testing"

	"github.com/headgate/headgate/admission"
)

// A benchPool is a full pool with a number of waiters. What a step returns in memory of its own is copied, as the host
// would; what it has changed in place is not.
type benchPool struct {
	machine admission.Machine
	state   []byte
	op      admission.Op
	ops     [1]*admission.Op
	now     int64
	seq     uint32 // the last ticket
	tenants int
	fair    bool
	waiting bool     // the worker has permits or tickets before each acquire
	running []uint32 // tickets granted, oldest first
	at      int
}

func (b *benchPool) target(expect bool) admission.Target {
	b.now += 1000
	return admission.Target{Now: b.now, Me: admission.Worker{Seat: 1, Epoch: 1}, Limit: 16, Expect: expect}
}

func (b *benchPool) step(tb testing.TB, want admission.Verdict) *admission.Effect {
	b.ops[0] = &b.op
	next, e := b.machine.Change(b.state, b.ops[:])
	if e.Verdict != want || !e.Changed {
		tb.Fatalf("verdict %v, changed %v, want verdict %v", e.Verdict, e.Changed, want)
	}
	if len(b.state) == 0 || &next[0] != &b.state[0] {
		b.state = append(b.state[:0], next...)
	} else {
		b.state = next
	}
	return e
}

func (b *benchPool) acquire(tb testing.TB, want admission.Verdict) {
	b.seq++
	b.op = admission.Acquire(b.target(b.waiting), admission.Request{Tenant: b.tenant(b.seq), Weight: 1, Seq: b.seq,
		Queue: 2048, Fair: b.fair, Budget: admission.Hour})
	b.step(tb, want)
}

func (b *benchPool) release(tb testing.TB) *admission.Effect {
	seq := b.running[b.at]
	b.op = admission.Release(b.target(true), b.tenant(seq), seq, admission.Finish{})
	return b.step(tb, admission.VerdictDone)
}

func (b *benchPool) tenant(seq uint32) uint64 {
	if !b.fair {
		return 0
	}
	return uint64(seq)%uint64(b.tenants) + 1
}

// BenchmarkStep is one acquire and one release: the two steps that a request costs. With waiters, the release grants
// its permit to one of them, and the acquire joins the end of the queue.
func BenchmarkStep(b *testing.B) {
	for _, c := range []struct {
		name    string
		fair    bool
		tenants int
	}{{"fifo", false, 1}, {"fair/tenants=1", true, 1}, {"fair/tenants=16", true, 16}, {"fair/tenants=64", true, 64},
		{"fair/tenants=waiters", true, 0}} {
		for _, waiters := range []int{0, 16, 64, 256, 1024} {
			b.Run(c.name+"/waiters="+strconv.Itoa(waiters), func(b *testing.B) {
				p := &benchPool{tenants: max(c.tenants, 1), fair: c.fair}
				if c.tenants == 0 {
					p.tenants = max(waiters, 1)
				}
				inflight := 16
				if waiters == 0 {
					inflight = 1
				}
				for range inflight {
					p.acquire(b, admission.VerdictGranted)
					p.running = append(p.running, p.seq)
				}
				for range waiters {
					p.acquire(b, admission.VerdictWaiting)
				}
				p.waiting = waiters > 0
				b.ReportAllocs()
				for b.Loop() {
					e := p.release(b)
					if waiters == 0 {
						p.acquire(b, admission.VerdictGranted)
						p.running[p.at] = p.seq
						continue
					}
					p.running[p.at] = e.Grants[0].Seq
					p.at = (p.at + 1) % inflight
					p.acquire(b, admission.VerdictWaiting)
				}
			})
		}
	}
}

// TestStepAllocatesNothing: a step allocates nothing once its buffers have grown.
func TestStepAllocatesNothing(t *testing.T) {
	p := &benchPool{tenants: 16, fair: true}
	for range 16 {
		p.acquire(t, admission.VerdictGranted)
		p.running = append(p.running, p.seq)
	}
	for range 256 {
		p.acquire(t, admission.VerdictWaiting)
	}
	p.waiting = true
	turn := func() {
		p.running[p.at] = p.release(t).Grants[0].Seq
		p.at = (p.at + 1) % len(p.running)
		p.acquire(t, admission.VerdictWaiting)
	}
	for range 1000 {
		turn()
	}
	if n := testing.AllocsPerRun(1000, turn); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
