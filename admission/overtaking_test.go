package admission_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/admissiontest"
)

// A contest is one permit for which many tenants ask, over and over again. It is about I6 alone: no tenant that waits
// with nothing running is overtaken twice by the same one.
type contest struct {
	machine  admission.Machine
	watch    admissiontest.Watch
	mutate   func(state []byte) []byte // applied to the record before each step
	state    []byte
	now      int64
	seq      uint32
	tenantOf map[uint32]uint64 // by ticket
	running  uint64            // the tenant that has the permit
	broken   string            // the first that the watch says of I6
}

func newContest(mutate func([]byte) []byte) *contest {
	return &contest{mutate: mutate, now: 1000 * ms, tenantOf: map[uint32]uint64{}}
}

func (c *contest) target() admission.Target {
	c.now += ms
	return admission.Target{Now: c.now, Me: admission.Worker{Seat: 0, Epoch: 1 << 32}, Limit: 1}
}

func (c *contest) step(op admission.Op) {
	next, e := c.machine.Step(c.mutate(c.state), &op)
	if err := c.watch.Step(c.state, &op, next, e); err != nil {
		for line := range strings.Lines(err.Error()) {
			if strings.HasPrefix(line, "I6:") && c.broken == "" {
				c.broken = line
			}
		}
	}
	if e.Changed {
		c.state = slices.Clone(next)
	}
	if op.Kind == admission.OpAcquire && e.Verdict == admission.VerdictGranted {
		c.running = op.Tenant
	}
	for _, g := range e.Grants {
		c.running = c.tenantOf[g.Seq]
	}
}

func (c *contest) ask(tenant uint64) {
	c.seq++
	c.tenantOf[c.seq] = tenant
	c.step(admission.Acquire(c.target(), admission.Request{Tenant: tenant, Weight: 1, Seq: c.seq, Queue: 4096, Fair: true,
		Budget: admission.Hour}))
}

// release gives the permit back, and returns whose it was.
func (c *contest) release() (tenant uint64) {
	tenant = c.running
	c.step(admission.Release(c.target(), tenant, 0, admission.Finish{}))
	return tenant
}

func unchanged(state []byte) []byte { return state }

func forgetLastGrants(state []byte) []byte {
	return changed(state, func(r *admission.Record) {
		for i := range r.Tenants {
			r.Tenants[i].LastGrant = 0
		}
	})
}

func forgetTheForgotten(state []byte) []byte {
	return changed(state, func(r *admission.Record) { r.Forgotten = 0 })
}

// overtakingMutants are faults that break I6. The watch may stop them for another invariant first (a tie that is
// decided wrongly breaks I5, too), so these contests are asked about I6 alone.
var overtakingMutants = []struct {
	name   string
	mutate func([]byte) []byte
	play   func(mutate func([]byte) []byte) string
}{
	{"no tenant's last grant is remembered", forgetLastGrants, takeTurns},
	{"a forgotten tenant comes back as if never granted", forgetTheForgotten, comeAndGo},
}

// TestOvertaking: I6 holds, also with more tenants than a record remembers.
func TestOvertaking(t *testing.T) {
	for _, mt := range overtakingMutants {
		if why := mt.play(unchanged); why != "" {
			t.Errorf("what %q would break: %s", mt.name, why)
		}
	}
}

func TestOvertakingMutants(t *testing.T) {
	for _, mt := range overtakingMutants {
		t.Run(mt.name, func(t *testing.T) {
			if mt.play(mt.mutate) == "" {
				t.Fatal("not caught")
			}
		})
	}
}

// takeTurns lets three tenants ask again as soon as they are done, and returns what is broken of I6.
func takeTurns(mutate func([]byte) []byte) string {
	const tenants = 3
	c := newContest(mutate)
	for tenant := uint64(1); tenant <= tenants; tenant++ {
		c.ask(tenant)
	}
	for range 20 * tenants {
		c.ask(c.release())
	}
	return c.broken
}

// comeAndGo lets one tenant wait again and again, while more tenants than a record remembers come in turn for a short
// stream each, and returns what is broken of I6.
func comeAndGo(mutate func([]byte) []byte) string {
	const victim, others, rounds = 1000, 200, 800
	c := newContest(mutate)
	c.ask(victim)
	c.ask(1)
	for round := range uint64(rounds) {
		if c.release() == victim {
			c.ask(victim)
		}
		c.ask(round%others + 1)
	}
	return c.broken
}
