package admission_test

import (
	"fmt"
	"slices"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/admissiontest"
)

// pool is a small world around one record. Its workers do what the filter does, one host call at a time, over a store
// that has the host's rules:
//
//   - A get reads the record with its version. A set stores if the version is still the same.
//   - A swap that is lost is tried again, or the turn ends without it, as often as other workers' swaps come first.
//   - Messages arrive at any time, in any order.
//   - Between any two host calls a worker can crash, and the others go on.
type pool struct {
	*poolConfig
	record  []byte
	version uint32
	late    bool // the short budgets are over
	limit   int
	faults
	claims   uint64
	claimed  []int              // by number of claim: the worker
	dead     []admission.Worker // declared dead in the worker table; they still have their seats
	workers  []poolWorker
	requests []request
	messages []message
	override admission.Override // as was last stored
	waits    int                // recalls that have been waited for
	unsent   bool               // a recall was lost, with its message or with its sender
	refused  bool               // mutantRefuseInRecall: a request was
	reaped   int                // permits that were taken from living workers by mistake, and so may be granted twice
}

// A poolConfig is what doesn't change.
type poolConfig struct {
	first   int // the limit at the start
	queue   int
	fair    bool
	hold    bool                 // a release has something to say: its permit stays on hold
	crowd   bool                 // acquires are decided in a later turn, and cancels only mark the record
	calm    bool                 // a turn goes on until it has its swap
	raise   int                  // the limit that a worker's configuration may change to, once; 0: never
	retunes []admission.Override // which an admin context sets one after the other
	reuse   bool
	spares  bool // workers keep spares
	mutated poolMutant
	m       *admission.Machine
	judge   *admission.Machine // carries out again, one by one, what m did in one step
	w       *admissiontest.Watch
}

// faults are how often each thing may still go wrong. Lost swaps are no faults.
type faults struct{ crashes, losses, falseDeaths, raises, retunes int }

// A poolMutant is a fault in what the workers do.
type poolMutant uint8

const (
	mutantNone            poolMutant = iota
	mutantNoScan                     // ticks don't look for grants whose message was lost
	mutantCancelForgotten            // cancelling a ticket that has been granted gives nothing back
	mutantWakeOnly                   // a release wakes the next waiter, which then asks again, in place of granting
	mutantNoReaper                   // dead workers keep what they have
	mutantNoReassert                 // a worker that was declared dead by mistake doesn't count anew
	mutantBlindSet                   // set doesn't compare versions
	mutantEarlyRelease               // the permit is given back when the response begins
	mutantQuietRevival               // a worker that was declared dead by mistake goes on under its old epoch
	mutantSweepOnce                  // records are maintained once for each death, and never again
	mutantTellFirst                  // grants are told before the record is stored
	mutantGrantExpired               // a waiter whose budget is over goes on although its ticket was withdrawn
	mutantTrustMessage               // a message is believed without a look at the record
	mutantNoExpire                   // no worker ends waits that are over
	mutantOldEpochReaps              // a worker takes its seat back from a later one
	mutantLetPass                    // an acquire whose turn ends without a swap lets its request pass
	mutantForgetRelease              // a release whose turn ends without a swap is left to the reconcile
	mutantJournalTwice               // the journal is carried out twice
	mutantJournalLast                // the journal goes after the reconcile
	mutantNoRejoin                   // a fenced journal goes without the reconcile
	mutantOvertake                   // an acquire doesn't wait for those that are undecided
	mutantNoRecall                   // recalls are not sent
	mutantIgnoreRecall               // recalls are not listened to
	mutantSpareAfterSync             // a reconcile doesn't count the spares, and the worker goes on using them
	mutantSpareTwice                 // a release makes two spares
	mutantNoAging                    // spares are kept until they are called back
	mutantGrantIsSpare               // what the column has beside what runs is taken for spare
	mutantRefuseInRecall             // a request is refused while spares are being called back
	mutantSpareAfterDeath            // a worker that was declared dead goes on using its spares
	mutantAnyTenant                  // a request takes a spare of another tenant
)

// A poolWorker is what the filter knows in one VM.
type poolWorker struct {
	admission.Worker
	born, crashed bool
	dirty         bool
	journal       []ending // what the record doesn't know yet of requests that ended, oldest first
	asserts       bool     // the limit is still to be asserted
	swept         []admission.Worker
	turn          *turn // what is under way
	tell          []message
	ahead         bool     // its column is marked, as it last saw
	spares        []uint64 // the tenants that its spares are counted for
}

// An ending is what the end of a request says: that its permit is given back, or that its ticket is withdrawn.
type ending struct {
	request int
	cancel  bool
}

// A turn is what a worker wants stored in one swap, and how far it has come.
type turn struct {
	does    deed
	next    call
	record  []byte // what get returned
	version uint32
	rejoins bool // the worker was declared dead: a reconcile goes before the journal
	late    bool // the time when the turn began
	waits   int  // likewise
	ages    bool // a reconcile leaves the spares where they are
	limit   int  // the worker's configuration then
	tune    admission.Override
	living  []admission.Worker // the worker table, read after the record
}

// A deed is what goes into the swap besides the journal.
type deed uint8

const (
	deedNothing   deed = iota
	deedAcquire        // for the requests that are asking
	deedExpire         // withdraw tickets that are over
	deedReconcile      // make the column say the truth
	deedMaintain       // reap dead workers; without the journal
	deedAssert         // likewise, and assert the limit
	deedRetune         // set an override; without the journal, and not as the worker
)

// A call is the next host call of a turn.
type call uint8

const (
	callGet call = iota
	callTable
	callSet
)

// A request is one stream.
type request struct {
	worker int
	tenant uint64
	short  bool // its budget ends when it gets late
	joined bool // comes together with the one before, is the same, and ends after it
	missed bool // it came when it was late already: this budget doesn't end
	said   bool // it ran to its end
	now    phase
}

type phase uint8

const (
	phaseAhead     phase = iota
	phaseUndecided       // a later turn asks
	phaseAsking
	phaseWaiting
	phaseRunning
	phaseStreaming // mutantEarlyRelease: runs, and its permit is gone
	phaseDone
	phaseCut // its worker crashed
)

const (
	actStart     uint8 = iota // who: worker, what: request
	actFinish                 // what: request
	actCancel                 // what: request
	actStep                   // who: the next host call of the turn
	actEndTurn                // who: the swap was lost once too often
	actSend                   // who: the next message
	actDeliver                // what: message
	actLose                   // what: message
	actReconcile              // who
	actExpire                 // who
	actMaintain               // who
	actBeat                   // who: finds out that it was declared dead
	actDeclare                // who: is declared dead
	actCrash                  // who
	actLate                   // the short budgets end
	actRaise                  // who: has a new configuration, and asserts it
	actBirth                  // who: takes a seat
	actDecide                 // who: asks again for its undecided requests
	actDrop                   // what: request, undecided for too long
	actAssert                 // who: asserts its limit, which an earlier turn could not
	actAge                    // who: looks at its spares; what: 1 gives them back
	actWait                   // the time of a recall passes
	actRetune                 // who: an operator sets the next override there
)

var actNames = [...]string{"start", "finish", "cancel", "step", "end the turn", "send", "deliver", "lose", "reconcile",
	"expire", "maintain", "beat", "declare dead", "crash", "late", "raise", "birth", "decide", "drop", "assert",
	"age", "wait", "retune"}

func (p *pool) label(a action) string {
	return fmt.Sprintf("%s worker %d item %d", actNames[a.kind], a.who, a.what)
}

func (p *pool) String() string {
	var r admission.Record
	s := "no record"
	if r.Decode(p.record) == nil {
		s = fmt.Sprintf("limit %d from %d columns", r.Limit, r.Source)
		for _, c := range r.Columns {
			s += fmt.Sprintf(" %d/%d:%d+%d%s", c.Seat, c.Epoch>>32, c.Inflight, c.Tickets, map[bool]string{true: "!"}[c.Ahead])
		}
		s += " queue"
		for i := range r.Queue.Len() {
			s += fmt.Sprintf(" %d/%d", r.Queue.At(i).Seat, r.Queue.At(i).Seq)
		}
	}
	s += "; requests"
	for _, q := range p.requests {
		s += " " + phaseNames[q.now]
	}
	s += fmt.Sprintf("; messages %v dead %v", p.messages, p.dead)
	for _, w := range p.workers {
		s += fmt.Sprintf(" worker{%d/%d crashed %v dirty %v journal %v", w.Seat, w.Epoch>>32, w.crashed, w.dirty, w.journal)
		if t := w.turn; t != nil {
			s += fmt.Sprintf(" %s:%d rejoins %v", deedNames[t.does], t.next, t.rejoins)
		}
		s += fmt.Sprintf(" tell %v ahead %v spares %v}", w.tell, w.ahead, w.spares)
	}
	return s
}

var deedNames = [...]string{"journal", "acquire", "expire", "reconcile", "maintain", "assert", "retune"}

var phaseNames = [...]string{"ahead", "undecided", "asking", "waiting", "running", "streaming", "done", "cut"}

// There are two budgets. The clock has two readings: before the short budget ends, and after it.
const (
	earlyTime   = int64(1000 * admission.Millisecond)
	shortBudget = 10 * admission.Millisecond
	longBudget  = admission.Hour
	lateTime    = earlyTime + int64(shortBudget)
)

func (p *pool) time() int64 { return timeWhen(p.late) + int64(p.waits)*recallWait }

// recallWait is longer than a recall may take.
const recallWait = int64(30 * admission.Millisecond)

func timeWhen(late bool) int64 {
	if late {
		return lateTime
	}
	return earlyTime
}

func (p *pool) clone() system {
	c := *p
	c.workers = slices.Clone(p.workers)
	for i := range c.workers {
		w := &c.workers[i]
		w.journal, w.tell, w.swept = slices.Clone(w.journal), slices.Clone(w.tell), slices.Clone(w.swept)
		w.spares = slices.Clone(w.spares)
		if w.turn != nil {
			t := *w.turn
			w.turn = &t
		}
	}
	c.requests, c.messages, c.dead = slices.Clone(p.requests), slices.Clone(p.messages), slices.Clone(p.dead)
	return &c
}

func (p *pool) key(b []byte) []byte {
	b = putBytes(b, p.record)
	b = put(b, bit(p.late), uint64(p.limit), uint64(p.crashes), uint64(p.losses), uint64(p.falseDeaths),
		uint64(p.raises), p.claims, uint64(p.reaped), uint64(p.waits), bit(p.unsent), uint64(p.faults.retunes),
		uint64(p.override.Source), uint64(p.override.Limit))
	for _, d := range p.dead {
		b = put(b, uint64(d.Seat), d.Epoch)
	}
	for i := range p.workers {
		b = p.putWorker(b, &p.workers[i])
	}
	for _, r := range p.requests {
		b = put(b, uint64(r.now), bit(r.missed)|2*bit(p.hold && r.said))
	}
	for _, m := range p.messages {
		b = put(b, uint64(m.Seat), m.Epoch, uint64(m.Seq), bit(m.recall))
	}
	return b
}

func (p *pool) putWorker(b []byte, w *poolWorker) []byte {
	b = put(b, uint64(w.Seat), w.Epoch, bit(w.born)|2*bit(w.crashed)|4*bit(w.dirty)|8*bit(w.asserts)|16*bit(w.ahead),
		uint64(len(w.swept)), uint64(len(w.spares)))
	b = put(b, w.spares...)
	for _, e := range w.journal {
		b = put(b, uint64(2*e.request)+bit(e.cancel)+1)
	}
	if b = put(b, 0, bit(w.turn != nil)); w.turn != nil {
		t := w.turn
		b = put(b, uint64(t.does), uint64(t.next), bit(t.late)|2*bit(t.rejoins)|4*bit(t.ages), uint64(t.limit), uint64(t.waits),
			uint64(t.tune.Source), uint64(t.tune.Limit))
		for _, l := range t.living {
			b = put(b, uint64(l.Seat), l.Epoch)
		}
		if t.next != callGet { // what was read matters while it is still what is stored, or if a set doesn't compare
			current := t.version == p.version
			b = put(b, bit(current))
			if !current && p.mutated == mutantBlindSet {
				b = putBytes(b, t.record)
			}
		}
	}
	for _, g := range w.tell {
		b = put(b, 1, uint64(g.Seat), g.Epoch, uint64(g.Seq), bit(g.recall))
	}
	return put(b, 0)
}
