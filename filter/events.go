package filter

import (
	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/config"
	"github.com/headgate/headgate/filter/journal"
	"github.com/headgate/headgate/filter/records"
)

// What goes into the journal for the admin stage. A request that is admitted at once and ends well leaves nothing
// there, unless somebody looks.

// openJournal begins the journal of a context that decides requests.
func (p *plugin) openJournal() {
	p.journal, p.reporter = &journal.Journal{}, nil
	if p.cfg.Mode == config.ModeDisabled || len(p.pools) == 0 {
		return
	}
	p.reporter = journal.NewReporter(p.cfg.Domain)
	p.records.Onlooker = p
	for _, o := range p.pools {
		o.journal = p.journal.AddPool(o.Name)
	}
}

// keepReporter makes sure that a context can be asked that has had a request, and so a seat, or has something to tell.
// It is called in a tick, of which every counted request sees one.
func (p *plugin) keepReporter() {
	r := p.reporter
	if r == nil {
		return
	}
	if r.Works = r.Works || p.records.Seated(); r.Works || !p.journal.IsEmpty() {
		r.Keep(p.turn.now)
	}
}

// report answers a question of the admin stage. What has been counted is handed over before, since the admin stage
// reads it.
func (p *plugin) report() {
	p.handOverCounts()
	p.reporter.Answer(p.journal, p.turn.now, p.records.EachTenant)
}

// keepLine keeps of a request's first line what the journal would tell of it: by the time that there is something to
// tell, the host has it no more.
func (s *stream) keepLine(method, path []byte) {
	s.method = s.keepRaw(method[:min(len(method), mostMethod)])
	s.path = s.keepRaw(path[:min(len(path), mostPath)])
}

// How much of a request's first line is kept.
const (
	mostMethod = 16
	mostPath   = 128
)

// event is the beginning of an event about the request: what it is, and which pool and key it is about.
func (s *stream) event(kind journal.Kind) journal.Event {
	e := journal.Event{Kind: kind, At: s.plugin.turn.now, Wait: s.waited / millisecond,
		Tenant: view(s.kept(s.dims[config.DimensionTenant])), Model: view(s.kept(s.dims[config.DimensionModel])),
		Method: view(s.kept(s.method)), Path: view(s.kept(s.path))}
	if s.asked != nil {
		e.Pool = s.asked.Name
	}
	at := len(s.held)
	if kind == journal.Ended || kind == journal.Waited || s.fate == fateGranted {
		at-- // it has the permit that this is about
	}
	if at >= 0 && at < len(s.keys) {
		e.Key = s.keys[at].key.Name
	}
	return e
}

// noteRefusal tells of a refusal, of the pool asked last.
func (s *stream) noteRefusal(r reason) {
	kind := journal.Refused
	if r == reasonExpired {
		kind = journal.Expired
	}
	e := s.event(kind)
	if e.Reason = replies[r].Reason; !s.shadow() {
		e.Status = int(replies[r].Status)
	}
	s.plugin.journal.Note(&e)
}

// noteWait counts a wait that ended in admission, and tells of it if it was long for its time.
func (s *stream) noteWait(waited int64) {
	p := s.plugin
	if p.journal.CountWait(s.asked.journal, p.turn.now, waited/millisecond) {
		e := s.event(journal.Waited)
		p.journal.Note(&e)
	}
}

// noteCancelled tells of a client that left while it waited.
func (s *stream) noteCancelled() {
	e := s.event(journal.Cancelled)
	if s.ticket.Key != nil {
		e.Wait += max(s.plugin.turn.now-s.ticket.Since, 0) / millisecond
	}
	s.plugin.journal.Note(&e)
}

// noteEnd tells of the end of an admitted request: of each while somebody looks, and otherwise of those that waited,
// were cut off or failed.
func (s *stream) noteEnd() {
	p, a := s.plugin, &s.answer
	if !a.Sent || len(s.held) == 0 {
		return
	}
	plain := s.waited < millisecond && a.Completed() && a.Status < 400 && a.outcome != admission.OutcomeFailure
	if plain && !p.journal.Watched(p.turn.now) {
		return
	}
	e := s.event(journal.Ended)
	e.Status, e.Whole = a.Status, a.Completed()
	if since := s.held[0].permit.Since; since > 0 {
		e.Duration = (p.turn.now - since) / millisecond
	}
	p.journal.Note(&e)
}

// Saw implements records.Onlooker: it tells of a breaker's change, and of a dead worker.
func (p *plugin) Saw(k *records.Key, change *admission.Effect) {
	e := journal.Event{At: p.turn.now, Pool: k.Pool.Name, Key: k.Name}
	if change.Reaped > 0 {
		e.Kind = journal.Reaped
		p.journal.Note(&e)
	}
	if change.Breaker != change.BreakerBefore {
		e.Kind = breakerKinds[change.Breaker]
		p.journal.Note(&e)
	}
}

var breakerKinds = [...]journal.Kind{
	admission.BreakerClosed:   journal.BreakerClosed,
	admission.BreakerOpen:     journal.BreakerOpened,
	admission.BreakerHalfOpen: journal.BreakerHalfOpen,
}
