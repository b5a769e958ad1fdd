package filter

import (
	"github.com/tetratelabs/proxy-wasm-go-sdk/proxywasm/types"

	"github.com/headgate/headgate/admission/config"
	"github.com/headgate/headgate/admission/request"
	"github.com/headgate/headgate/filter/abi"
	"github.com/headgate/headgate/filter/admin"
	"github.com/headgate/headgate/filter/journal"
	"github.com/headgate/headgate/filter/records"
)

// New returns the module's VM context.
func New() types.VMContext { return &vm{} }

type vm struct{ types.DefaultVMContext }

func (*vm) NewPluginContext(id uint32) types.PluginContext { return &plugin{id: id} }

// A plugin is one configuration in one VM. Each of its parts has the methods that may change it, in the file that the
// comment names; the plugin's own methods only pass callbacks on to them.
type plugin struct {
	types.DefaultPluginContext
	id       uint32
	cfg      *config.Config // nil: none has been accepted
	pools    []*pool
	lookups  lookups // what the configuration reads of a request: lookups.go
	router   request.Router
	stats    globalStats
	ended    int  // requests since the last hand-over: metrics.go
	asserted bool // the configured limits are in the records

	turn     turn             // the current callback
	timer    timer            // when the host calls next: timer.go
	records  *records.Records // permits and tickets
	backlog  backlog          // waits that are decided: wait.go
	leavers  leavers          // streams that wait for their release: release.go
	virtuals virtuals         // requests that go on in shadow only: shadow.go
	bodies   bodies           // bodies in which the model is looked for: body.go
	journal  *journal.Journal // what the admin stage may ask for: events.go; nil: nothing
	reporter *journal.Reporter
	admin    *admin.Stage // in the stage admin: adminstage.go

	hasHeardGRPC bool // an upstream has answered a gRPC request: ending.go

	out  []byte    // scratch
	free []*stream // for reuse
}

// A turn is what belongs to one callback.
type turn struct {
	now     int64 // monotonic time, read once
	actions int   // continues and local replies made so far
}

// maxActions bounds the continues and local replies of one callback: the host runs them nested on one stack.
// docs/rationale.md says why 32.
const maxActions = 32

// A pool is one configured pool in one plugin context.
type pool struct {
	*records.Pool
	stats          poolStats
	admittedAtOnce []byte // what the access log is told of most requests
	journal        int    // its number in the journal
}

// OnPluginStart parses the configuration, and no more: the host also calls it in a throw-away VM that never sees a
// request. The first tick does the rest.
func (p *plugin) OnPluginStart(int) types.OnPluginStartStatus {
	text, s := abi.PluginConfiguration()
	if s != abi.StatusOK && s != abi.StatusNotFound {
		return p.refuse("the host did not hand it over")
	}
	cfg, err := config.Parse(text)
	if err != nil {
		return p.refuse(err.Error())
	}
	p.configure(cfg)
	if cfg.Stage != config.StageAdmin && cfg.Mode != config.ModeDisabled && len(p.pools) > 0 {
		p.begin()
		p.timer.arm(p.turn.now, p.turn.now)
	}
	return types.OnPluginStartStatusOK
}

func (p *plugin) refuse(why string) types.OnPluginStartStatus {
	abi.Log(abi.LogError, "configuration refused: "+why)
	abi.Increment(defineGlobalStats().rejected, 1)
	abi.HandOver() // this VM may be a throw-away one
	return types.OnPluginStartStatusFailed
}

func (p *plugin) configure(cfg *config.Config) {
	p.cfg = cfg
	p.stats = defineGlobalStats()
	p.lookups = newLookups(cfg)
	p.router = request.Router{Routes: cfg.Routes}
	p.records = records.New(cfg, p)
	p.pools = p.pools[:0]
	for i := range cfg.Pools {
		if c := &cfg.Pools[i]; concerns(cfg.Stage, c.Per) {
			o := &pool{stats: definePoolStats(c.Name), admittedAtOnce: appendOutcome(nil, "admitted", c.Name, 0, 1)}
			o.Pool = p.records.AddPool(c, o.stats.Stats)
			p.pools = append(p.pools, o)
		}
	}
	if cfg.Stage == config.StageAdmin {
		p.configureAdmin()
	} else {
		p.openJournal()
	}
}

// concerns reports whether a stage acquires pools of that kind.
func concerns(stage config.Stage, per config.Per) bool {
	switch stage {
	case config.StageInvocation:
		return per == config.PerInvocation
	case config.StageAttempt:
		return per == config.PerAttempt
	}
	return stage == config.StageRequest || stage == config.StageAdmin
}

// begin starts a callback: one reading of the clock, and a fresh allowance of actions.
func (p *plugin) begin() {
	p.turn.actions = 0
	p.readClock()
}

// readClock sets the time of what follows.
func (p *plugin) readClock() {
	if now, ok := abi.Monotonic(); ok && now > p.turn.now {
		p.turn.now = now
		p.records.SetTime(now)
	}
}

// WakeBy implements records.Waker.
func (p *plugin) WakeBy(at int64) { p.timer.wakeBy(p.turn.now, at) }

// NewHttpContext starts a stream.
func (p *plugin) NewHttpContext(id uint32) types.HttpContext {
	if p.admin != nil {
		return p.admin.NewStream(id)
	}
	if n := len(p.free); n > 0 {
		s := p.free[n-1]
		p.free = p.free[:n-1]
		s.id = id
		return s
	}
	return &stream{plugin: p, id: id}
}

// OnTick does what needs time.
func (p *plugin) OnTick() {
	if p.cfg == nil {
		return
	}
	if p.admin != nil {
		p.tickAdmin()
		return
	}
	p.begin()
	p.timer.ring()
	p.backlog.flushed = true
	if !p.asserted {
		p.asserted = true
		p.records.AssertLimits()
	}
	p.releaseDue()
	p.giveUpSearches()
	p.endVirtuals()
	p.records.Age()
	p.records.MaintainAgain()
	p.records.TakeUp()
	p.flush()
	p.keepReporter() // before an idle context leaves its seat
	if p.records.Seated() {
		p.receive()
		p.records.KeepSeat(p.backlog.first != nil)
		p.records.Attend()
		p.flush()
	}
	p.records.WakeForSeat()
	p.awaitNext()
	p.backlog.flushed = false
	p.handOverCounts()
	p.timer.rearm(p.turn.now)
}

// OnQueueReady lets granted waiters go on.
func (p *plugin) OnQueueReady(queue uint32) {
	p.begin()
	switch {
	case p.admin != nil:
		p.admin.OnMessage(queue, p.turn.now)
		return
	case p.reporter != nil && p.reporter.IsAsked(queue):
		p.report()
		return
	}
	p.backlog.flushed = true
	if p.records.IsMailbox(queue) {
		p.records.Answer()
		p.receive()
	}
	p.flush()
	p.backlog.flushed = false
}

// receive takes grants out of the mailbox as long as this callback may act on them. The host calls once for each
// message, so the rest is not forgotten.
func (p *plugin) receive() {
	for p.turn.actions < maxActions && p.records.Receive() {
		p.flush()
	}
}

// OnPluginDone gives the worker's seat up: the context has drained.
func (p *plugin) OnPluginDone() bool {
	if p.admin != nil {
		p.admin.Leave()
		return true
	}
	if p.cfg != nil {
		p.begin()
		if p.reporter != nil {
			p.reporter.Leave()
		}
		p.awaitNext() // it ticks no more: all are due now
		p.releaseDue()
		p.forgetVirtuals()
		p.records.Leave()
		p.handOverCounts()
	}
	return true
}

// Recovered implements abi.Recoverer.
func (p *plugin) Recovered(string) types.Action { return types.ActionContinue }
