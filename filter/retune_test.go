package filter_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/build/wasmbuild"
	"github.com/headgate/headgate/filter/records"
	"github.com/headgate/headgate/wasmtest"
)

// operatorModule is testdata/operator, built once.
var operatorModule = sync.OnceValues(func() (*wasmtest.Module, error) {
	dir, err := os.MkdirTemp("", "operator")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "operator.wasm")
	if err := wasmbuild.Module("testdata/operator", path); err != nil {
		return nil, err
	}
	code, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return wasmtest.Compile(code)
})

// An operator is a plugin beside the filter's that changes and shows limits.
type operator struct {
	*gateway
	own *wasmtest.Plugin
}

// operate is start with an operator beside.
func operate(t *testing.T, workers int, c object) *operator {
	t.Helper()
	o := &operator{gateway: start(t, workers, c, wasmtest.WithVMID("headgate"))}
	o.configure(c)
	return o
}

// configure gives the operator a configuration.
func (o *operator) configure(c object) {
	o.t.Helper()
	m, err := operatorModule()
	require.NoError(o.t, err)
	p := pluginConfig(c)
	p.Name, p.RootID, p.Module = "operator", "operator", m
	o.own, err = o.host.Load(p)
	require.NoError(o.t, err)
}

// reloadAll replaces the configuration of the filter and of the operator.
func (o *operator) reloadAll(c object) {
	o.t.Helper()
	o.reload(c)
	o.configure(c)
}

type operatorSays struct {
	records.Change
	Retuning records.Retuning
	Keys     []records.KeyState
	Default  int
	Whole    bool
}

// ask brings a request to the operator on a worker.
func (o *operator) ask(worker int, headers ...string) (a operatorSays) {
	o.t.Helper()
	s := o.own.Stream(worker)
	s.RequestHeaders(wasmtest.RequestHeaders("POST", "/", headers...), true)
	require.NotNil(o.t, s.LocalReply())
	require.NoError(o.t, json.Unmarshal(s.LocalReply().Body, &a))
	return a
}

// null takes an override away.
const null = -1

func limitText(limit int) string {
	if limit == null {
		return ""
	}
	return strconv.Itoa(limit)
}

func (o *operator) retune(worker int, key string, limit int) operatorSays {
	o.t.Helper()
	return o.ask(worker, "x-do", "retune", "x-pool", "model", "x-key", key, "x-limit", limitText(limit))
}

func (o *operator) retuneDefault(worker, limit int) operatorSays {
	o.t.Helper()
	return o.ask(worker, "x-do", "default", "x-pool", "model", "x-limit", limitText(limit))
}

// requireChange checks what became of a retune.
func (o *operator) requireChange(before, after int, from admission.Source, a operatorSays) {
	o.t.Helper()
	require.Equal(o.t, records.Retuned, a.Retuning)
	require.Equal(o.t, records.Change{Before: before, Limit: after, Source: from}, a.Change)
}

// key is what the operator sees of a key.
func (o *operator) key(name string) records.KeyState {
	o.t.Helper()
	for _, k := range o.look() {
		if k.Name == name {
			return k
		}
	}
	o.t.Fatalf("no key %s", name)
	return records.KeyState{}
}

func (o *operator) look() []records.KeyState {
	o.t.Helper()
	a := o.ask(0, "x-do", "look", "x-pool", "model")
	require.True(o.t, a.Whole)
	return a.Keys
}

// requireLimit checks how many requests of a model run at once, and what the operator sees of the limit.
func (o *operator) requireLimit(model string, limit int, from admission.Source) {
	o.t.Helper()
	k := o.key(model)
	require.Equal(o.t, limit, k.Limit)
	require.Equal(o.t, from, k.Source)
	o.requireCapacity(model, limit)
}

func (o *operator) end(streams ...*wasmtest.Stream) {
	for _, s := range streams {
		s.Respond(200, "ok")
	}
	o.host.Drain()
}

const (
	fromConfig = admission.FromConfig
	fromKey    = admission.FromKey
	fromPool   = admission.FromPool
)

// A raised limit lets waiters of all workers go on at once, oldest first.
func TestARaisedLimitWakesWaiters(t *testing.T) {
	o := operate(t, 3, config(pool("model", 1, "queue", 10, "max_wait", "60s")))
	first := o.sendModel(0, "m")
	var waiting []*wasmtest.Stream
	for i := range 4 {
		waiting = append(waiting, o.sendModel((i+1)%3, "m"))
		o.requireWaiting(waiting[i], "a request beyond the limit")
	}
	since := o.host.Elapsed()
	o.requireChange(1, 4, fromKey, o.retune(0, "m", 4))
	o.host.Drain()
	require.Equal(t, since, o.host.Elapsed(), "no time has passed")
	for i, s := range waiting {
		require.Equalf(t, i < 3, runs(s), "waiter %d, %s", i, stateOf(s))
	}
	require.Equal(t, 4, o.gauge("model.inflight"))
	require.Equal(t, 1, o.gauge("model.queued"))
	o.end(first, waiting[0], waiting[1], waiting[2])
	o.requireRunning(waiting[3], "the last waiter")
	o.end(waiting[3])
	o.requireLimit("m", 4, fromKey)
	o.requireDrained("model")
	o.requireQuiet()
	require.NoError(t, o.host.Verify())
}

// A lowered limit takes nothing away, and nobody is granted anything until it is met.
func TestALoweredLimitKeepsWhatRuns(t *testing.T) {
	o := operate(t, 2, config(pool("model", 3, "queue", 10, "max_wait", "60s")))
	a, b, c := o.sendModel(0, "m"), o.sendModel(1, "m"), o.sendModel(1, "m")
	o.requireChange(3, 1, fromKey, o.retune(1, "m", 1))
	next := o.sendModel(0, "m")
	for _, s := range []*wasmtest.Stream{a, b, c} {
		o.host.Run(100 * ms)
		o.requireRunning(s, "a request that ran before")
		o.requireWaiting(next, "a request above the limit")
		o.end(s)
	}
	o.requireRunning(next, "the next one")
	second := o.sendModel(1, "m")
	o.requireWaiting(second, "one more")
	o.requireChange(1, 0, fromKey, o.retune(0, "m", 0))
	o.end(next)
	o.requireWaiting(second, "a request at a limit of 0")
	r := o.sendModel(0, "m").LocalReply()
	require.Equal(t, 429, r.Code)
	require.Equal(t, "false", r.Headers.Get("x-should-retry"), "the pool is closed")
	o.requireChange(0, 3, fromConfig, o.retune(0, "m", null))
	o.host.Drain()
	o.requireRunning(second, "the waiter, back at the configured limit")
	o.end(second)
	o.requireLimit("m", 3, fromConfig)
	o.requireDrained("model")
}

// Spares of all workers come back when a lower limit needs them.
func TestALoweredOverrideCallsSparesBack(t *testing.T) {
	o := operate(t, 2, config(pool("model", 30, "queue", 10, "max_wait", "60s")))
	for range 3 {
		var all []*wasmtest.Stream
		for i := range 6 {
			all = append(all, o.sendModel(i%2, "m"))
		}
		o.end(all...)
	}
	require.Positive(t, o.key("m").Inflight, "spares")
	o.retune(0, "m", 1)
	o.host.Drain()
	require.Zero(t, o.key("m").Inflight, "one message later")
	o.requireCapacity("m", 1)
}

// An override outlives new configurations and the death of workers. Only null ends it, and then the newest
// configuration counts.
func TestAnOverrideStays(t *testing.T) {
	o := operate(t, 3, config(pool("model", 2, "queue", 10, "max_wait", "60s")))
	s := o.sendModel(0, "m")
	o.requireChange(2, 3, fromKey, o.retune(0, "m", 3))
	o.reloadAll(config(pool("model", 7)))
	o.reloadAll(config(pool("model", 5)))
	require.Equal(t, 3, o.key("m").Limit)
	o.end(s)
	o.requireLimit("m", 3, fromKey)
	o.host.Run(minute)
	o.requireLimit("m", 3, fromKey)
	o.host.Worker(0).Kill()
	o.host.Run(10 * second)
	require.Equal(t, 3, o.ask(1, "x-do", "look", "x-pool", "model").Keys[0].Limit)
	o.requireChange(3, 5, fromConfig, o.retune(1, "m", null))
	o.requireChange(5, 5, fromConfig, o.retune(2, "m", null))
}

// The override of a default counts for all keys without a limit of their own, those that are there and those that come.
func TestTheOverrideOfADefault(t *testing.T) {
	o := operate(t, 2, config(pool("model", 2, "keys", object{"big": object{"limit": 6}})))
	for _, m := range []string{"a", "b", "big"} {
		o.end(o.sendModel(0, m))
	}
	o.requireChange(2, 5, fromKey, o.retune(1, "b", 5))
	o.requireChange(2, 3, fromPool, o.retuneDefault(0, 3))
	o.end(o.sendModel(1, "new"))
	for m, limit := range map[string]int{"a": 3, "b": 5, "big": 6, "new": 3} {
		from := map[int]admission.Source{3: fromPool, 5: fromKey, 6: fromConfig}[limit]
		o.requireLimit(m, limit, from)
	}
	o.requireChange(5, 3, fromPool, o.retune(0, "b", null))
	o.requireLimit("b", 3, fromPool)
	o.reloadAll(config(pool("model", 4, "keys", object{"a": object{"limit": 1}})))
	o.requireLimit("a", 1, fromConfig)
	o.requireLimit("big", 3, fromPool)
	a := o.ask(0, "x-do", "look", "x-pool", "model")
	require.Equal(t, 3, a.Default)
	require.Equal(t, fromPool, a.Source)
	o.requireChange(3, 4, fromConfig, o.retuneDefault(1, null))
	for _, m := range []string{"b", "big", "new"} {
		o.requireLimit(m, 4, fromConfig)
	}
	o.requireDrained("model")
}

// A record that is damaged loses an override of its key's own. It is made anew under that of the default, as it is now.
func TestALostRecordInheritsAnew(t *testing.T) {
	for _, model := range []string{"m", "other"} {
		t.Run(model, func(t *testing.T) {
			o := operate(t, 2, config(pool("model", 2, "queue", 9, "max_wait", "60s")))
			name := map[string]string{"m": "headgate/3/default/model/0", "other": "headgate/3/default/model/other"}[model]
			lose := func() (running []*wasmtest.Stream) {
				running = append(running, o.sendModel(0, model), o.sendModel(1, model))
				o.host.SharedData().Set(name, []byte("noise"))
				o.host.Run(3 * second)
				return running
			}
			o.retuneDefault(0, 3)
			o.end(o.sendModel(0, model))
			o.retuneDefault(0, 4)
			o.retune(0, model, 5)
			o.end(lose()...)
			o.requireLimit(model, 4, fromPool)
			o.retuneDefault(0, null)
			o.end(lose()...)
			o.requireLimit(model, 2, fromConfig)
		})
	}
}

// The key that stands in for all others is a key like any other, though it has a fixed place.
func TestOverridesOfOther(t *testing.T) {
	for _, first := range []bool{false, true} {
		t.Run(fmt.Sprintf("used before %t", first), func(t *testing.T) {
			o := operate(t, 2, with(config(pool("model", 2)), "max_keys", 1))
			held := o.sendModel(0, "a") // has the only record
			if first {
				o.end(o.sendModel(0, "x"))
			} else {
				require.Equal(t, records.NoSuchKey, o.retune(0, "other", 1).Retuning)
			}
			o.requireChange(2, 3, fromPool, o.retuneDefault(0, 3))
			o.requireCapacity("y", 3)
			o.requireChange(3, 1, fromKey, o.retune(1, "other", 1))
			o.requireCapacity("y", 1)
			o.requireChange(1, 3, fromPool, o.retune(1, "other", null))
			o.requireChange(3, 2, fromConfig, o.retuneDefault(1, null))
			require.Equal(t, 2, o.key("other").Limit)
			o.requireCapacity("z", 2)
			o.end(held)
			o.requireDrained("model")
		})
	}
}

// A key is there if the configuration names it or a request has asked for it.
func TestKeysThatAreNotThere(t *testing.T) {
	o := operate(t, 2, config(pool("model", 2, "keys", object{"big": object{"limit": 6}})))
	for _, key := range []string{"a", "", "other"} {
		require.Equal(t, records.NoSuchKey, o.retune(0, key, 1).Retuning, key)
	}
	require.Empty(t, o.look())
	o.requireChange(6, 1, fromKey, o.retune(0, "big", 1))
	require.Equal(t, 1, o.gauge("model.keys"))
	o.requireLimit("big", 1, fromKey)
	o.requireChange(1, 6, fromConfig, o.retune(0, "big", null))
}

// A pool without dimensions has one key, whether it has been asked for or not.
func TestOverrideOfAPoolWithOneKey(t *testing.T) {
	o := operate(t, 2, config(object{"name": "model", "limit": 2}))
	require.Len(t, o.look(), 1)
	require.Equal(t, records.NoSuchKey, o.retune(0, "m", 1).Retuning)
	o.requireChange(2, 2, fromConfig, o.retuneDefault(0, null))
	o.requireChange(2, 3, fromKey, o.retuneDefault(0, 3))
	o.requireCapacity("any", 3)
	o.requireChange(3, 1, fromKey, o.retune(0, "model", 1))
	o.requireCapacity("any", 1)
	k := o.key("model")
	require.Equal(t, []int{2, 1}, []int{k.Configured, k.Limit})
	o.requireChange(1, 2, fromConfig, o.retuneDefault(0, null))
	o.requireCapacity("any", 2)
}

// A key with an override keeps its record, and so others may find none. The override of a default keeps nothing.
func TestAnOverrideKeepsItsRecord(t *testing.T) {
	o := operate(t, 1, with(config(pool("model", 2)), "max_keys", 1))
	o.end(o.sendModel(0, "a"))
	o.retuneDefault(0, 3)
	o.host.Run(spareTime)
	o.end(o.sendModel(0, "b"))
	require.Equal(t, "b", o.look()[0].Name, "it took a's slot")
	o.host.Run(spareTime)
	o.retune(0, "b", 4)
	o.end(o.sendModel(0, "a"))
	require.Equal(t, "b", o.look()[0].Name, "a shares the key other")
	o.requireLimit("b", 4, fromKey)
	o.retune(0, "b", null)
	o.host.Run(spareTime)
	o.end(o.sendModel(0, "c"))
	require.Equal(t, "c", o.look()[0].Name)
	o.requireLimit("c", 3, fromPool)
}

// A slot that changes hands is emptied first. If its old key keeps it, its place is renewed by whoever needs it next.
func TestARetuneRenewsAPlace(t *testing.T) {
	o := operate(t, 1, with(config(pool("model", 2)), "max_keys", 1))
	o.end(o.sendModel(0, "a"))
	o.host.Run(spareTime)
	fails := true
	o.host.OnHostCall(func(c *wasmtest.HostCall) {
		if fails && c.Name() == "proxy_set_shared_data" && c.Text(0) == "headgate/3/default/model/directory" {
			fails = false
			c.Fail(wasmtest.StatusInternalFailure)
		}
	})
	o.end(o.sendModel(0, "b")) // empties a's slot, and can't have it
	require.False(t, fails)
	require.Empty(t, o.look())
	o.requireChange(2, 1, fromKey, o.retune(0, "a", 1))
	o.requireLimit("a", 1, fromKey)
	require.Equal(t, 1, o.gauge("model.keys"))
}

func TestOverridesAreBounded(t *testing.T) {
	o := operate(t, 1, config(pool("model", 2)))
	for i := range records.MaxOverrides + 1 {
		o.end(o.sendModel(0, fmt.Sprint("m", i)))
	}
	for i := range records.MaxOverrides {
		require.Equal(t, records.Retuned, o.retune(0, fmt.Sprint("m", i), 1).Retuning)
	}
	last := fmt.Sprint("m", records.MaxOverrides)
	require.Equal(t, records.TooMany, o.retune(0, last, 1).Retuning)
	require.Equal(t, fromConfig, o.key(last).Source)
	o.requireChange(1, 3, fromKey, o.retune(0, "m7", 3)) // it has one
	o.requireChange(2, 2, fromConfig, o.retune(0, last, null))
	o.retune(0, "m7", null)
	o.requireChange(2, 1, fromKey, o.retune(0, last, 1))
}

// What an operator sees is what the records say, and looking changes nothing.
func TestLooking(t *testing.T) {
	c := config(pool("model", 3, "queue", 10, "max_wait", "60s", "fair_by", "tenant", "weights", object{"t1": 3},
		"hold", object{"failure": "2s"}, "breaker", object{"failures": 3, "window": "30s", "open": "10s", "max_open": "60s"}))
	o := operate(t, 2, c)
	send := func(worker int, tenant string) *wasmtest.Stream {
		return o.send(worker, "x-model", "m", "x-tenant", tenant)
	}
	bad := send(0, "t1")
	a, b := send(0, "t1"), send(1, "t2")
	w := send(1, "t1")
	bad.Respond(500, "no")
	o.host.Run(1500 * ms)
	o.requireWaiting(w, "a request, while a permit is on hold")
	before := sharedData(o)
	k := o.key("m")
	require.Equal(t, before, sharedData(o))
	require.Equal(t, []int{3, 3, 2, 1, 1}, []int{k.Configured, k.Limit, k.Inflight, k.Queued, k.OnHold})
	require.Equal(t, 1500*admission.Millisecond, k.OldestWait)
	require.InDelta(t, float64(500*admission.Millisecond), float64(k.HoldEnd), float64(10*admission.Millisecond))
	require.Len(t, k.Tenants, 2)
	for _, s := range k.Tenants {
		if s.Weight == 3 {
			require.Equal(t, []uint32{1, 1}, []uint32{s.Inflight, s.Queued})
		} else {
			require.Equal(t, []uint32{1, 0}, []uint32{s.Inflight, s.Queued})
		}
		require.NotZero(t, s.ID)
	}
	o.host.Run(600 * ms)
	o.requireRunning(w, "the waiter, after the hold")
	for _, s := range []*wasmtest.Stream{a, b} {
		s.Respond(503, "no")
	}
	w.Respond(503, "no")
	o.host.Run(second)
	k = o.key("m")
	require.Equal(t, admission.BreakerOpen, k.Breaker)
	require.InDelta(t, float64(9*admission.Second), float64(k.BreakerChange), float64(20*admission.Millisecond))
	o.host.Run(20 * second)
	k = o.key("m")
	require.Equal(t, admission.BreakerHalfOpen, k.Breaker, "the next request is the probe")
	require.Zero(t, k.BreakerChange)
	require.Empty(t, k.Tenants)
}

// sharedData is all that is stored of the pool.
func sharedData(o *operator) (all []string) {
	for _, key := range []string{"directory", "0", "other", "only"} {
		b, cas, ok := o.host.SharedData().Get("headgate/3/default/model/" + key)
		all = append(all, fmt.Sprint(b, cas, ok))
	}
	return all
}

// announceTo brings a configuration to one worker, and lets it alone act for a while.
func (o *operator) announceTo(worker int, c object) {
	o.t.Helper()
	_, err := o.host.Announce(pluginConfig(c))
	require.NoError(o.t, err)
	for range 10 {
		for _, e := range o.host.Pending() {
			if e.Worker == o.host.Worker(worker) {
				o.host.Deliver(e)
			}
		}
		o.host.Advance(10 * ms)
	}
}

// Two operators at once: what one of them has read may have changed when it stores. At rest all records agree.
func TestTwoOperatorsAtOnce(t *testing.T) {
	for name, first := range map[string]func(o *operator){
		"both change the default":     func(o *operator) { o.retuneDefault(0, 3) },
		"one ends a key's own":        func(o *operator) { o.retune(0, "a", null) },
		"a configuration comes":       func(o *operator) { o.announceTo(0, config(pool("model", 4))) },
		"one overrides and ends that": func(o *operator) { o.retune(0, "b", 9); o.retune(0, "b", null) },
	} {
		for skipped := range 6 {
			t.Run(fmt.Sprint(name, " ", skipped), func(t *testing.T) {
				o := operate(t, 2, config(pool("model", 2)))
				for _, m := range []string{"a", "b", "other"} {
					o.end(o.sendModel(0, m))
				}
				o.retune(0, "a", 5)
				n := 0
				o.host.OnHostCall(func(c *wasmtest.HostCall) {
					if c.Worker() == o.host.Worker(0) && c.Name() == "proxy_set_shared_data" {
						if n++; n == skipped+1 {
							require.Equal(t, records.Retuned, o.retuneDefault(1, 7).Retuning)
						}
					}
				})
				first(o)
				o.host.OnHostCall(nil)
				if n <= skipped {
					return // it had stored all before
				}
				directory := o.ask(0, "x-do", "look", "x-pool", "model").Default
				for _, k := range o.look() {
					if k.Source != fromKey {
						require.Equal(t, directory, k.Limit, k.Name)
						require.Equal(t, fromPool, k.Source, k.Name)
					}
				}
			})
		}
	}
}

// Retunes go on against the swaps of others, and say so when the store fails.
func TestARetuneInContention(t *testing.T) {
	o := operate(t, 1, config(pool("model", 2)))
	o.end(o.sendModel(0, "m"))
	lose, status := 0, wasmtest.StatusCasMismatch
	o.host.OnHostCall(func(c *wasmtest.HostCall) {
		if c.Name() == "proxy_set_shared_data" && lose > 0 {
			lose--
			c.Fail(status)
		}
	})
	for _, n := range []int{1, 20} {
		lose = n
		o.requireChange(o.key("m").Limit, n, fromKey, o.retune(0, "m", n))
		lose = n
		require.Equal(t, records.Retuned, o.retuneDefault(0, n).Retuning)
		require.Zero(t, lose)
	}
	o.retune(0, "m", 5)
	lose = 1_000_000
	require.Equal(t, records.NotRetuned, o.retune(0, "m", 6).Retuning)
	require.Equal(t, records.NotRetuned, o.retuneDefault(0, 6).Retuning)
	lose, status = 1, wasmtest.StatusInternalFailure
	require.Equal(t, records.NotRetuned, o.retune(0, "m", 6).Retuning)
	lose = 0
	o.requireLimit("m", 5, fromKey)
}
