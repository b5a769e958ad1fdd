// Command operator is a plugin that changes and shows the limits of a configuration's pools as requests tell it to, for
// the tests of package records. It takes no seat.
package main

import (
	"encoding/json"
	"strconv"

	"github.com/tetratelabs/proxy-wasm-go-sdk/proxywasm/types"

	"github.com/headgate/headgate/admission/config"
	"github.com/headgate/headgate/filter/abi"
	"github.com/headgate/headgate/filter/records"
)

func init() { abi.SetVMContext(&vm{}) }

func main() {}

type vm struct{ types.DefaultVMContext }

func (*vm) NewPluginContext(uint32) types.PluginContext {
	return &plugin{pools: map[string]*records.Pool{}}
}

type plugin struct {
	types.DefaultPluginContext
	records *records.Records
	pools   map[string]*records.Pool
}

func (p *plugin) OnPluginStart(int) types.OnPluginStartStatus {
	text, _ := abi.PluginConfiguration()
	cfg, err := config.Parse(text)
	if err != nil {
		return types.OnPluginStartStatusFailed
	}
	p.records = records.New(cfg, p)
	for i := range cfg.Pools {
		c := &cfg.Pools[i]
		metric := func(kind abi.MetricKind, name string) uint32 {
			id, _ := abi.DefineMetric(kind, "headgate."+c.Name+"."+name)
			return id
		}
		p.pools[c.Name] = p.records.AddPool(c, records.Stats{
			Inflight: metric(abi.KindGauge, "inflight"), Queued: metric(abi.KindGauge, "queued"),
			OnHold: metric(abi.KindGauge, "on_hold"), Keys: metric(abi.KindGauge, "keys"),
			Reaped: metric(abi.KindCounter, "reaped"), StoreError: metric(abi.KindCounter, "store_error"),
			CASRetry: metric(abi.KindCounter, "cas_retry"), Contended: metric(abi.KindCounter, "contended"),
			BreakerOpened: metric(abi.KindCounter, "breaker_opened"), BreakerClosed: metric(abi.KindCounter, "breaker_closed")})
	}
	return types.OnPluginStartStatusOK
}

// WakeBy implements records.Waker. Nothing here needs time.
func (*plugin) WakeBy(int64) { panic("an operator has nothing to wait for") }

func (p *plugin) NewHttpContext(uint32) types.HttpContext { return &stream{plugin: p} }

type stream struct {
	types.DefaultHttpContext
	plugin *plugin
}

// OnHttpRequestHeaders does what the headers say: x-do is look, retune or default, x-limit a number or nothing.
func (s *stream) OnHttpRequestHeaders(int, bool) types.Action {
	told := map[string]string{}
	pairs, _ := abi.RequestHeaders()
	for c := pairs.Cursor(); c.Next(); {
		told[string(c.Name)] = string(c.Value)
	}
	r, o := s.plugin.records, s.plugin.pools[told["x-pool"]]
	now, _ := abi.Monotonic()
	r.SetTime(now)
	limit, err := strconv.Atoi(told["x-limit"])
	var answer struct {
		records.Change
		Retuning records.Retuning
		Keys     []records.KeyState
		Default  int
		Whole    bool
	}
	switch told["x-do"] {
	case "retune":
		answer.Change, answer.Retuning = r.Retune(o, told["x-key"], limit, err == nil)
	case "default":
		answer.Change, answer.Retuning = r.RetuneDefault(o, limit, err == nil)
	case "look":
		answer.Default, answer.Source = r.DefaultLimit(o)
		answer.Whole = r.Look(o, func(k *records.KeyState) {
			one := *k
			one.Tenants = append(one.Tenants[:0:0], k.Tenants...)
			answer.Keys = append(answer.Keys, one)
		})
	}
	body, _ := json.Marshal(answer)
	abi.SendLocalReply(200, "", body, nil, -1)
	abi.HandOver()
	return types.ActionPause
}
