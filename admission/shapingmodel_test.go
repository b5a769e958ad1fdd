package admission_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/admission"
)

// --- against a model written for clarity ---

// shaperModel is a pool key as the documents describe it: one queue in order of arrival, holds, breaker and stepped headroom.
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
	probe    uint32
	failures []int64 // times
	anchor   int64   // where the window's parts begin
}

type shaperTicket struct {
	seq      uint32
	slot     uint16
	deadline int64
	gen      int
}

func (m *shaperModel) tidy(now int64) {
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

func (m *shaperModel) release(now int64, i int, o admission.Outcome, retryAfter admission.Duration, pushback bool) []uint32 {
	t := m.running[i]
	hold := admission.Duration(0)
	switch o {
	case admission.OutcomeSuccess:
		hold = m.p.Hold.Success
	case admission.OutcomeCancel:
		hold = m.p.Hold.Cancel + m.p.Hold.Success
	case admission.OutcomeFailure:
		hold = m.p.Hold.Failure
		if b := m.p.Breaker; b != nil && b.Penalty > 0 {
			hold = b.Penalty
			for range m.punished {
				hold = min(2*hold, b.MaxPenalty)
			}
			m.punished++
		}
		if hold > 0 {
			hold = max(hold, retryAfter)
		}
		hold += m.p.Hold.Success
	}
	m.verdict(now, t, o)
	if pushback && m.p.Headroom != nil {
		m.pushed = now
	}
	m.running = append(m.running[:i:i], m.running[i+1:]...)
	if hold = min(hold, 10*admission.Minute); hold > 0 && m.p.Limit-len(m.holds)-1 >= m.p.MinActive {
		grain := 10 * milli
		m.holds = append(m.holds, (now+int64(hold)+grain-1)/grain*grain)
	}
	return m.dispatch(now)
}

// verdict is what a request's end tells the breaker.
func (m *shaperModel) verdict(now int64, t shaperTicket, o admission.Outcome) {
	b := m.p.Breaker
	switch {
	case b == nil:
	case m.state == "half" && m.probe == t.seq:
		switch o {
		case admission.OutcomeSuccess:
			m.state, m.opened, m.punished, m.failures, m.probe = "closed", 0, 0, nil, 0
			m.gen++
		case admission.OutcomeFailure:
			m.trip(now)
		default:
			m.probe = 0
		}
	case m.state != "closed" || m.gen != t.gen:
	case o == admission.OutcomeSuccess:
		m.punished = 0
	case o == admission.OutcomeFailure:
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
		if len(m.failures) >= b.Failures {
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
	m.state, m.until, m.failures, m.probe = "open", now+int64(open), nil, 0
	m.gen++
}

func drawDuration(t *rapid.T, label string, millis ...int) admission.Duration {
	return admission.Duration(rapid.SampledFrom(millis).Draw(t, label)) * admission.Millisecond
}

func drawShapedPool(t *rapid.T) shaperPool {
	p := shaperPool{Limit: rapid.IntRange(1, 4).Draw(t, "limit"), Queue: rapid.IntRange(0, 3).Draw(t, "queue"),
		Hold: admission.Hold{Success: drawDuration(t, "success", 0, 35, 100), Cancel: drawDuration(t, "cancel", 0, 200), Failure: drawDuration(t, "failure", 0, 700)}}
	p.MinActive = rapid.IntRange(0, p.Limit).Draw(t, "min_active")
	if rapid.IntRange(0, 3).Draw(t, "breaker") > 0 {
		p.Breaker = &admission.Breaker{Failures: rapid.IntRange(1, 3).Draw(t, "failures"), Window: drawDuration(t, "window", 100, 1000, 1005), Open: drawDuration(t, "open", 100, 333),
			MaxOpen: drawDuration(t, "max_open", 333, 1000), Penalty: drawDuration(t, "penalty", 0, 100), MaxPenalty: drawDuration(t, "max_penalty", 100, 350)}
	}
	if rapid.Bool().Draw(t, "headroom") {
		p.Headroom = &admission.Headroom{Window: drawDuration(t, "headroom window", 500), Min: rapid.IntRange(1, p.Limit).Draw(t, "min")}
	}
	return p
}

// Any schedule: the verdicts, grants, counts and times of the record are those of the model.
func TestShapedPoolIsTheModel(t *testing.T) {
	for range 10 { // a step costs little, and some edges are rare
		rapid.Check(t, func(t *rapid.T) {
			p := drawShapedPool(t)
			s := newShaper(t, p)
			m := &shaperModel{p: s.pool, state: "closed", gen: 0}
			for range rapid.IntRange(1, 200).Draw(t, "steps") {
				playShaped(t, s, m)
			}
		})
	}
}

func playShaped(t *rapid.T, s *shaper, m *shaperModel) {
	kind := rapid.SampledFrom([]string{"acquire", "acquire", "acquire", "release", "release", "release", "report", "cancel", "expire", "tend", "pass", "pass"}).Draw(t, "step")
	if kind == "pass" {
		passShaped(t, s, m)
		return
	}
	m.tidy(s.now)
	var e admission.Effect
	var granted []uint32
	slot := uint16(rapid.IntRange(0, 1).Draw(t, "worker"))
	switch kind {
	case "acquire":
		s.seq++
		budget := drawDuration(t, "budget", 0, 150, 2000)
		op := s.op(admission.OpAcquire, slot, s.seq)
		op.Budget = budget
		e = s.step(op)
		var v admission.Verdict
		v, granted = m.acquire(s.now, shaperTicket{seq: s.seq, slot: slot, deadline: s.now + int64(max(budget, 1))}, budget > 0)
		require.Equal(t, v, e.Verdict, "verdict")
		if v == admission.VerdictOpen {
			require.GreaterOrEqual(t, int64(e.RetryAfter)*second, m.until-s.now, "retry-after")
		}
	case "release", "report":
		if len(m.running) == 0 {
			return
		}
		i := rapid.IntRange(0, len(m.running)-1).Draw(t, "which")
		r := m.running[i]
		o := rapid.SampledFrom([]admission.Outcome{admission.OutcomeNone, admission.OutcomeSuccess, admission.OutcomeCancel, admission.OutcomeFailure, admission.OutcomeFailure}).Draw(t, "outcome")
		op := s.op(admission.OpRelease, r.slot, r.seq)
		op.Outcome, op.BreakerGen, op.Expect = o, uint32(r.gen), true
		if kind == "report" {
			op.Kind = admission.OpReport
			e = s.step(op)
			if m.probe == r.seq {
				m.verdict(s.now, r, o)
			}
			granted = m.dispatch(s.now)
			break
		}
		if o == admission.OutcomeFailure {
			op.RetryAfter, op.Pushback = drawDuration(t, "retry-after", 0, 0, 900, 700_000), rapid.Bool().Draw(t, "429")
		}
		e = s.step(op)
		granted = m.release(s.now, i, o, op.RetryAfter, op.Pushback)
	case "cancel":
		if len(m.queue) == 0 {
			return
		}
		i := rapid.IntRange(0, len(m.queue)-1).Draw(t, "which")
		c := m.queue[i]
		e = s.step(s.op(admission.OpCancel, c.slot, c.seq))
		require.Equal(t, admission.VerdictDone, e.Verdict)
		m.queue = append(m.queue[:i:i], m.queue[i+1:]...)
		granted = m.dispatch(s.now)
	case "expire":
		e = s.step(s.op(admission.OpExpire, slot, 0))
		var mine []uint32
		var kept []shaperTicket
		for _, q := range m.queue {
			if q.slot == slot && q.deadline <= s.now {
				mine = append(mine, q.seq)
			} else {
				kept = append(kept, q)
			}
		}
		m.queue = kept
		require.Equal(t, mine, e.Expired, "expired")
		granted = m.dispatch(s.now)
	case "tend":
		e = s.step(s.op(admission.OpMaintain, slot, 0))
		granted = m.dispatch(s.now)
	}
	var told []uint32
	for _, g := range e.Grants {
		told = append(told, g.Seq)
	}
	require.Equal(t, fmt.Sprint(granted), fmt.Sprint(told), "granted")
	require.Equal(t, [3]int{len(m.running), len(m.queue), len(m.holds)}, [3]int{e.Inflight, e.Queued, e.OnHold}, "used, queued, held")
	require.LessOrEqual(t, e.Inflight+e.OnHold, m.p.Limit)
	require.True(t, e.NextChange == 0 || e.NextChange > s.now, "next is to come")
	if m.p.Breaker != nil {
		require.Equal(t, uint32(m.gen), e.BreakerGen, "the breaker's generation")
	}
}

// passShaped lets time pass: some of it, or exactly to what happens next.
func passShaped(t *rapid.T, s *shaper, m *shaperModel) {
	moments := []int64{s.now + int64(drawDuration(t, "time", 1, 10, 35, 100, 700))}
	for _, until := range append([]int64{m.until}, m.holds...) {
		if until > s.now {
			moments = append(moments, until, until-1)
		}
	}
	s.now = max(rapid.SampledFrom(moments).Draw(t, "until"), s.now)
}
