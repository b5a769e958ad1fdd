package rig

import (
	"regexp"
	"testing"
)

// trapped is the host's last word on a VM that trapped; what the module's runtime had to say comes before it.
var trapped = regexp.MustCompile(`Function: \w+ failed: .*\n`)

// AwaitTrap waits until a VM has trapped, as the test wants it to, and then tells traps that come later from it.
func (e *Env) AwaitTrap(t testing.TB) {
	t.Helper()
	Await(t, "a VM has trapped", func() bool {
		last := trapped.FindStringIndex(e.LogSince())
		if last != nil {
			e.mark += last[1]
		}
		return last != nil
	})
}

// CheckCapacity checks that exactly limit requests are admitted at once and one more is not, and that they leave
// nothing behind. It is the part of DrainCheck that holds after a crash too: a dead VM's waiters have no outcome.
func (e *Env) CheckCapacity(t testing.TB, pool string, limit int, like ...Call) {
	t.Helper()
	call := Call{}
	if len(like) > 0 {
		call = like[0]
	}
	e.fill(t, pool, limit, call)
	e.AwaitDrained(t, pool)
	e.CheckAlive(t)
}

// Got says whether the text has come in the body.
func (p *Pending) Got(text string) bool { return p.BodyHas(text) }
