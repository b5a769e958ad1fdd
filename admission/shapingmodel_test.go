package admission_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/admission"
)

// shaperModel is a pool key as the documents describe it, written for clarity: one queue in order of arrival, holds, a
// breaker, and headroom in mode step.
type shaperModel struct {
	p       *shaperPool
	running []shaperTicket
	queue   []shaperTicket
	holds   []int64
	pushed  int64 // the last pushback; 0: none

	state    string // "closed", "open", "half"
	gen      int
	until    int64
	opened   int // times in a row
	punished int // failures in a row
	row      int // the same, since the breaker was last closed
	probe    uint32
	failures []int64 // times
	anchor   int64   // where the window's parts begin
}

type shaperTicket struct {
	seq      uint32
	seat     uint16
	deadline int64
	gen      int
	told     *admission.Finish // how its request ended, whose permit is not back yet
}

func (m *shaperModel) decay(now int64) {
	kept := m.holds[:0]
	for _, until := range m.holds {
		if until > now {
			kept = append(kept, until)
		}
	}
	m.holds = kept
	if m.pushed > 0 && m.p.Headroom != nil && now >= m.pushed+int64(m.p.Headroom.Window) {
		m.pushed = 0
	}
}

func (m *shaperModel) limit() int {
	if m.p.Headroom == nil || m.pushed == 0 {
		return m.p.Limit
	}
	return max(m.p.Limit-1, min(m.p.Headroom.Min, m.p.Limit))
}

func (m *shaperModel) dispatch(now int64) (granted []uint32) {
	for {
		next := -1
		for i := range m.queue {
			if m.queue[i].deadline > now {
				next = i
				break
			}
		}
		if len(m.queue) > 0 && m.state == "open" && now >= m.until {
			m.state, m.probe = "half", 0
			m.gen++
		}
		if next < 0 || len(m.running)+len(m.holds) >= m.limit() || m.state == "open" || m.state == "half" && m.probe != 0 {
			return granted
		}
		t := m.queue[next]
		m.queue = append(append([]shaperTicket(nil), m.queue[:next]...), m.queue[next+1:]...)
		if m.state == "half" {
			m.probe = t.seq
		}
		t.gen = m.gen
		m.running = append(m.running, t)
		granted = append(granted, t.seq)
	}
}

func (m *shaperModel) acquire(now int64, t shaperTicket, waits bool) (v admission.Verdict, granted []uint32) {
	if m.p.Limit == 0 {
		return admission.VerdictClosed, nil
	}
	room := waits && len(m.queue) < m.p.Queue
	m.queue = append(m.queue, t)
	granted = m.dispatch(now)
	for i, seq := range granted {
		if seq == t.seq {
			return admission.VerdictGranted, append(granted[:i:i], granted[i+1:]...)
		}
	}
	switch {
	case room && m.state == "closed":
		return admission.VerdictWaiting, granted
	case m.state == "closed":
		v = admission.VerdictFull
	default:
		v = admission.VerdictOpen
	}
	m.queue = m.queue[:len(m.queue)-1]
	return v, granted
}

func (m *shaperModel) release(now int64, i int, f admission.Finish) []uint32 {
	t := m.running[i]
	hold := m.holdOf(f)
	if t.told == nil {
		m.learn(now, t, f)
	}
	m.running = append(m.running[:i:i], m.running[i+1:]...)
	if hold = min(hold, 10*admission.Minute); hold > 0 && m.p.Limit-len(m.holds)-1 >= m.p.MinActive {
		grain := 10 * ms
		m.holds = append(m.holds, (now+int64(hold)+grain-1)/grain*grain)
	}
	return m.dispatch(now)
}

// holdOf is for how long the permit of a request that ended so is kept out of use.
func (m *shaperModel) holdOf(f admission.Finish) admission.Duration {
	switch f.Outcome {
	case admission.OutcomeSuccess:
		return m.p.Hold.Success
	case admission.OutcomeCancel:
		return m.p.Hold.Cancel + m.p.Hold.Success
	case admission.OutcomeFailure:
		hold := m.p.Hold.Failure
		if b := m.p.Breaker; b != nil && b.Penalty > 0 {
			before := m.punished
			if f.Told {
				before = max(before-1, 0)
			}
			hold = b.Penalty
			for range before {
				hold = min(2*hold, b.MaxPenalty)
			}
		}
		if hold > 0 {
			hold = max(hold, f.RetryAfter)
		}
		return hold + m.p.Hold.Success
	}
	return 0
}

// learn takes into account how a request ended.
func (m *shaperModel) learn(now int64, t shaperTicket, f admission.Finish) {
	if b := m.p.Breaker; f.Outcome == admission.OutcomeFailure && b != nil && b.Penalty > 0 {
		m.punished++
	}
	m.countOutcome(now, t, f.Outcome)
	if f.Pushback && m.p.Headroom != nil {
		m.pushed = now
	}
}

// countOutcome is what a request's end tells the breaker.
func (m *shaperModel) countOutcome(now int64, t shaperTicket, o admission.Outcome) {
	b := m.p.Breaker
	switch {
	case b == nil:
	case m.state == "half" && m.probe == t.seq:
		switch o {
		case admission.OutcomeSuccess:
			m.state, m.opened, m.punished, m.row, m.failures, m.probe = "closed", 0, 0, 0, nil, 0
			m.gen++
		case admission.OutcomeFailure:
			m.trip(now)
		default:
			m.probe = 0
		}
	case m.state != "closed" || m.gen != t.gen:
	case o == admission.OutcomeSuccess:
		m.punished, m.row = 0, 0
	case o == admission.OutcomeFailure:
		m.row++
		part := int64(b.Window) / 10
		alive := []int64{}
		for _, f := range m.failures {
			if (now-m.anchor)/part-(f-m.anchor)/part < 10 {
				alive = append(alive, f)
			}
		}
		if len(alive) == 0 {
			m.anchor = now
		}
		m.failures = append(alive, now)
		if len(m.failures) >= b.Failures || m.row >= b.Failures {
			m.trip(now)
		}
	}
}

func (m *shaperModel) trip(now int64) {
	open := m.p.Breaker.Open
	for range m.opened {
		open = min(2*open, m.p.Breaker.MaxOpen)
	}
	m.opened++
	m.state, m.until, m.failures, m.row, m.probe = "open", now+int64(open), nil, 0, 0
	m.gen++
}

func drawDuration(t *rapid.T, label string, millis ...int) admission.Duration {
	return admission.Duration(rapid.SampledFrom(millis).Draw(t, label)) * admission.Millisecond
}

func drawShapedPool(t *rapid.T) shaperPool {
	p := shaperPool{Limit: rapid.IntRange(1, 4).Draw(t, "limit"), Queue: rapid.IntRange(0, 3).Draw(t, "queue")}
	p.Hold = admission.Hold{Success: drawDuration(t, "success", 0, 35, 100), Cancel: drawDuration(t, "cancel", 0, 200),
		Failure: drawDuration(t, "failure", 0, 700)}
	p.MinActive = rapid.IntRange(0, p.Limit).Draw(t, "min_active")
	if rapid.IntRange(0, 3).Draw(t, "breaker") > 0 {
		p.Breaker = &admission.Breaker{Failures: rapid.IntRange(1, 3).Draw(t, "failures"),
			Window: drawDuration(t, "window", 100, 1000, 1005),
			Open:   drawDuration(t, "open", 100, 333), MaxOpen: drawDuration(t, "max_open", 333, 1000),
			Penalty: drawDuration(t, "penalty", 0, 100), MaxPenalty: drawDuration(t, "max_penalty", 100, 350)}
	}
	if rapid.Bool().Draw(t, "headroom") {
		p.Headroom = &admission.Headroom{Window: drawDuration(t, "headroom window", 500),
			Min: rapid.IntRange(1, p.Limit).Draw(t, "min")}
	}
	return p
}

// In any schedule the verdicts, grants, counts and times of the record are those of the model.
func TestShapedPoolIsTheModel(t *testing.T) {
	for range 10 { // a step costs little, and some edges are rare
		rapid.Check(t, func(t *rapid.T) {
			p := drawShapedPool(t)
			s := newShaper(t, p)
			m := &shaperModel{p: s.pool, state: "closed", gen: 0}
			for range rapid.IntRange(1, 200).Draw(t, "steps") {
				shapedPlay{t, s, m}.step()
			}
		})
	}
}

// A shapedPlay plays random steps on a record and on the model.
type shapedPlay struct {
	t *rapid.T
	s *shaper
	m *shaperModel
}

// shapedSteps are the steps by name. Each returns the record's effect and whom the model granted; false: there was
// nothing to do.
var shapedSteps = map[string]func(shapedPlay) (admission.Effect, []uint32, bool){
	"acquire": shapedPlay.acquire,
	"release": shapedPlay.release,
	"report":  shapedPlay.report,
	"tell":    shapedPlay.tell,
	"cancel":  shapedPlay.cancel,
	"expire":  shapedPlay.expire,
	"maintain": func(p shapedPlay) (admission.Effect, []uint32, bool) {
		return p.s.step(admission.Maintain(p.s.target(p.worker()), false, nil)), p.m.dispatch(p.s.now), true
	},
}

// step makes one step and compares the record with the model.
func (p shapedPlay) step() {
	t, s, m := p.t, p.s, p.m
	names := []string{"acquire", "acquire", "acquire", "release", "release", "release", "report", "tell", "tell", "cancel",
		"expire", "maintain", "pass", "pass"}
	name := rapid.SampledFrom(names).Draw(t, "step")
	if name == "pass" {
		p.pass()
		return
	}
	m.decay(s.now)
	e, granted, done := shapedSteps[name](p)
	if !done {
		return
	}
	var told []uint32
	for _, g := range e.Grants {
		told = append(told, g.Seq)
	}
	require.Equal(t, fmt.Sprint(granted), fmt.Sprint(told), "granted")
	require.Equal(t, [3]int{len(m.running), len(m.queue), len(m.holds)}, [3]int{e.Inflight, e.Queued, e.OnHold},
		"inflight, queued, on hold")
	require.LessOrEqual(t, e.Inflight+e.OnHold, m.p.Limit)
	require.True(t, e.NextChange == 0 || e.NextChange > s.now, "the next change is to come")
	if m.p.Breaker != nil {
		require.Equal(t, uint32(m.gen), e.BreakerGen, "the breaker's generation")
	}
}

func (p shapedPlay) worker() uint16 { return uint16(rapid.IntRange(0, 1).Draw(p.t, "worker")) }

func (p shapedPlay) acquire() (admission.Effect, []uint32, bool) {
	t, s, m := p.t, p.s, p.m
	seat := p.worker()
	s.seq++
	budget := drawDuration(t, "budget", 0, 150, 2000)
	e := s.ask(seat, s.seq, budget)
	ticket := shaperTicket{seq: s.seq, seat: seat, deadline: s.now + int64(max(budget, 1))}
	v, granted := m.acquire(s.now, ticket, budget > 0)
	require.Equal(t, v, e.Verdict, "verdict")
	if v == admission.VerdictOpen {
		require.GreaterOrEqual(t, int64(e.RetryAfter)*second, m.until-s.now, "retry-after")
	}
	return e, granted, true
}

// draw chooses one of some tickets; false if there are none.
func (p shapedPlay) draw(from []shaperTicket) (i int, ok bool) {
	if len(from) == 0 {
		return 0, false
	}
	return rapid.IntRange(0, len(from)-1).Draw(p.t, "which"), true
}

func (p shapedPlay) outcome() admission.Outcome {
	return rapid.SampledFrom([]admission.Outcome{admission.OutcomeNone, admission.OutcomeSuccess, admission.OutcomeCancel,
		admission.OutcomeFailure, admission.OutcomeFailure}).Draw(p.t, "outcome")
}

// expecting is the target of an operation on something that a worker has here.
func (p shapedPlay) expecting(seat uint16) admission.Target {
	t := p.s.target(seat)
	t.Expect = true
	return t
}

func (p shapedPlay) release() (e admission.Effect, granted []uint32, done bool) {
	i, ok := p.draw(p.m.running)
	if !ok {
		return e, nil, false
	}
	r := p.m.running[i]
	f := p.finish(r)
	e = p.s.step(admission.Release(p.expecting(r.seat), 0, r.seq, f))
	return e, p.m.release(p.s.now, i, f), true
}

// finish draws how a request ends: as it was told, if it was.
func (p shapedPlay) finish(r shaperTicket) admission.Finish {
	if r.told != nil {
		f := *r.told
		f.Told = true
		return f
	}
	f := admission.Finish{Outcome: p.outcome(), BreakerGen: uint32(r.gen)}
	if f.Outcome == admission.OutcomeFailure {
		f.RetryAfter, f.Pushback = drawDuration(p.t, "retry-after", 0, 0, 900, 700_000), rapid.Bool().Draw(p.t, "429")
	}
	return f
}

func (p shapedPlay) tell() (e admission.Effect, granted []uint32, done bool) {
	i, ok := p.draw(p.m.running)
	if !ok || p.m.running[i].told != nil {
		return e, nil, false
	}
	r := &p.m.running[i]
	f := p.finish(*r)
	e = p.s.step(admission.Tell(p.expecting(r.seat), 0, r.seq, f))
	p.m.learn(p.s.now, *r, f)
	r.told = &f
	return e, p.m.dispatch(p.s.now), true
}

func (p shapedPlay) report() (e admission.Effect, granted []uint32, done bool) {
	i, ok := p.draw(p.m.running)
	if !ok {
		return e, nil, false
	}
	r, o := p.m.running[i], p.outcome()
	e = p.s.step(admission.Report(p.expecting(r.seat), r.seq, o))
	if p.m.probe == r.seq {
		p.m.countOutcome(p.s.now, r, o)
	}
	return e, p.m.dispatch(p.s.now), true
}

func (p shapedPlay) cancel() (e admission.Effect, granted []uint32, done bool) {
	i, ok := p.draw(p.m.queue)
	if !ok {
		return e, nil, false
	}
	c := p.m.queue[i]
	e = p.s.step(admission.Cancel(p.s.target(c.seat), 0, c.seq))
	require.Equal(p.t, admission.VerdictDone, e.Verdict)
	p.m.queue = append(p.m.queue[:i:i], p.m.queue[i+1:]...)
	return e, p.m.dispatch(p.s.now), true
}

func (p shapedPlay) expire() (admission.Effect, []uint32, bool) {
	seat := p.worker()
	e := p.s.step(admission.Expire(p.s.target(seat)))
	var expired []uint32
	var kept []shaperTicket
	for _, q := range p.m.queue {
		if q.seat == seat && q.deadline <= p.s.now {
			expired = append(expired, q.seq)
		} else {
			kept = append(kept, q)
		}
	}
	p.m.queue = kept
	require.Equal(p.t, expired, e.Expired, "expired")
	return e, p.m.dispatch(p.s.now), true
}

// pass lets time pass: some of it, or exactly to what happens next.
func (p shapedPlay) pass() {
	moments := []int64{p.s.now + int64(drawDuration(p.t, "time", 1, 10, 35, 100, 700))}
	for _, until := range append([]int64{p.m.until}, p.m.holds...) {
		if until > p.s.now {
			moments = append(moments, until, until-1)
		}
	}
	p.s.now = max(rapid.SampledFrom(moments).Draw(p.t, "until"), p.s.now)
}
