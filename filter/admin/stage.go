package admin

import (
	"github.com/tetratelabs/proxy-wasm-go-sdk/proxywasm/types"

	"github.com/headgate/headgate/admission/config"
	"github.com/headgate/headgate/filter/abi"
	"github.com/headgate/headgate/filter/journal"
	"github.com/headgate/headgate/filter/records"
)

const (
	millisecond = int64(1e6)

	// mostWaiting bounds the requests that wait for reports. More are answered with what is known.
	mostWaiting = 32

	// bodyPatience is how long a request may take to send its body.
	bodyPatience = 5000 * millisecond
)

// Outcomes are the names of the counters that the state tells, in its order.
var Outcomes = [...]string{"evaluated", "admitted", "admitted_after_wait", "rejected_queue_full", "rejected_closed",
	"rejected_breaker", "expired_max_wait", "expired_deadline", "cancelled_waiting", "completed", "aborted", "reaped",
	"store_error", "provider_429", "provider_failure", "shadow_would_wait", "shadow_would_reject", "shadow_would_expire"}

// A Pool is a pool as this stage knows it.
type Pool struct {
	*records.Pool
	Counters [len(Outcomes)]uint32 // ids of metrics
}

// A Context is the plugin context of a stage.
type Context interface {
	records.Waker

	// Now reads the clock, for the Records too: monotonic nanoseconds.
	Now() int64
}

// A Stage is the stage in one plugin context. Not safe for concurrent use.
type Stage struct {
	cfg     *config.Config
	records *records.Records
	context Context
	id      uint32 // of the plugin context
	pools   []*Pool
	asker   *journal.Asker
	log     log
	now     int64
	waiting []*stream // for reports or for their bodies, in the order of their coming
	names   names
	out     writer
}

// New returns the stage of a plugin context.
func New(cfg *config.Config, r *records.Records, c Context, id uint32, pools []*Pool) *Stage {
	return &Stage{cfg: cfg, records: r, context: c, id: id, pools: pools,
		asker: journal.NewAsker(cfg.Domain)}
}

// NewStream returns the context of a request.
func (s *Stage) NewStream(id uint32) types.HttpContext { return &stream{stage: s, id: id} }

// OnMessage takes a message out of a shared queue. Requests are answered for which it was the last report.
func (s *Stage) OnMessage(queue uint32, now int64) {
	if s.asker.IsAnswer(queue) && s.asker.Hear() {
		s.now = now
		s.answerReady()
	}
}

// OnTick answers the requests that have waited long enough.
func (s *Stage) OnTick(now int64) {
	s.now = now
	for i := range s.waiting {
		if r := s.waiting[i]; !r.inBody && now >= r.due {
			s.asker.GiveUp(r.round, now)
		}
	}
	s.answerReady()
	for i := range s.waiting {
		s.context.WakeBy(s.waiting[i].due)
	}
}

// Leave ends the stage with its plugin context.
func (s *Stage) Leave() { s.asker.Leave() }

// answerReady answers the requests that need not wait any more, from outside their callbacks.
func (s *Stage) answerReady() {
	for i := 0; i < len(s.waiting); {
		r := s.waiting[i]
		if s.now < r.due && (r.inBody || !s.asker.Answered(r.round)) {
			i++
			continue
		}
		s.waiting = append(s.waiting[:i], s.waiting[i+1:]...)
		if abi.SetEffectiveContext(r.id) == abi.StatusOK {
			r.answer()
		}
		abi.SetEffectiveContext(s.id)
	}
}

// await has a request wait. It is answered at that time at the latest.
func (s *Stage) await(r *stream, due int64) {
	r.due = due
	s.waiting = append(s.waiting, r)
	s.context.WakeBy(due)
}

// forget ends the wait of a request.
func (s *Stage) forget(r *stream) {
	for i, o := range s.waiting {
		if o == r {
			s.waiting = append(s.waiting[:i], s.waiting[i+1:]...)
			return
		}
	}
}

// ask asks all workers for reports on behalf of a request; false: they need not be waited for.
func (s *Stage) ask(r *stream) bool {
	if len(s.waiting) >= mostWaiting {
		return false
	}
	s.log.load(s.cfg.Domain)
	r.round = s.asker.Ask(s.now, s.log.known)
	return !s.asker.Answered(r.round)
}

// pool returns the pool of a name, or nil.
func (s *Stage) pool(name string) *Pool {
	for _, o := range s.pools {
		if o.Name == name {
			return o
		}
	}
	return nil
}
