package filter

import (
	"github.com/tetratelabs/proxy-wasm-go-sdk/proxywasm/types"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/filter/abi"
)

// New returns the module's VM context.
func New() types.VMContext { return &vm{} }

type vm struct{ types.DefaultVMContext }

func (*vm) NewPluginContext(id uint32) types.PluginContext { return &plugin{id: id} }

// A plugin is one configuration in one VM.
type plugin struct {
	types.DefaultPluginContext
	id    uint32
	cfg   *admission.Config
	pools []*pool
	reads reads
	stats globalStats

	now     int64 // monotonic time of the current callback
	actions int   // continues and local replies made in the current callback

	machine  admission.Machine
	op       admission.Op // reused by the operations, none of which nest
	syncOp   admission.Op // reused by sync, which the others may need in the middle
	retireOp admission.Op // reused by retire, which an acquire may need in the middle
	tendOp   admission.Op // reused by tend, likewise
	dir      admission.Directory
	out      []byte // scratch for directories and tables
	seqs     []uint32

	worker
	doubt   bool               // the gauges may have lost touch with the records
	permits int                // held by this context's streams
	waiting map[uint32]*stream // by ticket number
	lines   []*key             // the keys that something waits for
	timed   []*key             // the keys in whose record time alone will free something
	dirty   []*key             // the keys whose record may differ from the truth here
	backlog []*stream          // decided but not yet resumed or answered, for want of actions
	free    []*stream          // for reuse
	leaving []*stream          // ended, to be released in the next turn of the event loop

	readings []*stream // whose bodies are being searched for their model
	hearing  hearing
}

// A pool is one configured pool in one plugin context.
type pool struct {
	*admission.Pool
	prefix string // of its shared data keys
	stats  poolStats
	keys   map[string]*key
	known  []*key // the same, in the order they were met
	only   *key   // the one key of a pool without dimensions
	other  *key   // what keys beyond max_keys share
	hand   int    // where the next search for an idle slot starts

	recent         [recentKeys]*key // the last key met by rough resemblance of its name
	admittedAtOnce []byte           // what the access log is told of most requests
}

// OnPluginStart parses the configuration, and no more: the host also calls it in a throw-away VM that never sees a
// request. The first tick does the rest.
func (p *plugin) OnPluginStart(int) types.OnPluginStartStatus {
	text, s := abi.PluginConfiguration()
	if s != abi.StatusOK && s != abi.StatusNotFound {
		return p.refuse("the host did not hand it over")
	}
	cfg, err := admission.ParseConfig(text)
	if err != nil {
		return p.refuse(err.Error())
	}
	p.configure(cfg)
	if cfg.Mode != admission.ModeDisabled && len(p.pools) > 0 {
		p.begin()
		p.arm(p.now)
	}
	return types.OnPluginStartStatusOK
}

func (p *plugin) refuse(why string) types.OnPluginStartStatus {
	abi.Log(abi.LogError, "configuration refused: "+why)
	abi.Increment(defineGlobalStats().rejected, 1)
	return types.OnPluginStartStatusFailed
}

func (p *plugin) configure(cfg *admission.Config) {
	p.cfg = cfg
	p.stats = defineGlobalStats()
	p.reads = newReads(cfg)
	p.waiting = map[uint32]*stream{}
	p.pools = p.pools[:0]
	for i := range cfg.Pools {
		if c := &cfg.Pools[i]; concerns(cfg.Stage, c.Per) {
			p.pools = append(p.pools, newPool(cfg, c))
		}
	}
}

// concerns reports whether a stage acquires pools of that kind.
func concerns(stage admission.Stage, per admission.Per) bool {
	switch stage {
	case admission.StageInvocation:
		return per == admission.PerInvocation
	case admission.StageAttempt:
		return per == admission.PerAttempt
	}
	return stage == admission.StageRequest
}

func newPool(cfg *admission.Config, c *admission.Pool) *pool {
	o := &pool{Pool: c, prefix: dataPrefix + cfg.Domain + "/" + c.Name + "/", stats: definePoolStats(c.Name), keys: map[string]*key{}}
	o.other = &key{pool: o, name: "other", limit: c.Limit, data: o.prefix + "other", fixed: true}
	if limit, ok := c.Keys[o.other.name]; ok {
		o.other.limit = limit
	}
	o.only = &key{pool: o, name: c.Name, limit: c.Limit, data: o.prefix + "only", fixed: true}
	o.admittedAtOnce = appendOutcome(nil, "admitted", c.Name, 0, 1)
	return o
}

// dataPrefix starts every shared data key and queue name: other plugins may share the same space. It carries the
// version of what is stored.
const dataPrefix = "headgate/1/"

// begin starts a callback: one reading of the clock, and a fresh allowance of actions.
func (p *plugin) begin() {
	p.actions = 0
	if now, ok := abi.Monotonic(); ok && now > p.now {
		p.now = now
	}
}

// NewHttpContext starts a stream.
func (p *plugin) NewHttpContext(id uint32) types.HttpContext {
	if n := len(p.free); n > 0 {
		s := p.free[n-1]
		p.free = p.free[:n-1]
		s.id = id
		return s
	}
	return &stream{plugin: p, id: id}
}

// OnPluginDone gives the worker's seat up: the context has drained.
func (p *plugin) OnPluginDone() bool {
	if p.cfg != nil {
		p.begin()
		p.releaseLeaving()
		p.repair()
		if len(p.dirty) == 0 { // else the lease gives back what could not be
			p.leave()
		}
	}
	return true
}

// Recovered implements abi.Recoverer.
func (p *plugin) Recovered(string) types.Action { return types.ActionContinue }
