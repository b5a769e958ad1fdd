package envoy_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/headgate/headgate/envoy/rig"
)

func TestRefusedConfigurationLeavesTheRunningOne(t *testing.T) {
	env := governed(t, 2, modelPool(1, 0, ""))
	held := env.Hold(t, "held")
	bad := map[string]string{
		"bogus_field": `{"bogus_field": 1, "pools": [{"name": "x", "limit": 5}]}`,
		"max_wait":    `{"pools": [{"name": "x", "limit": 5, "max_wait": "5 parsecs"}]}`,
		"limit":       `{"pools": [{"name": "x", "limit": -1}]}`,
		"trusted":     `{"identity": {"tenant": [{"header": "x-tenant"}]}, "pools": [{"name": "x", "limit": 5}]}`,
	}
	before := env.FilterCounts(t)["config_rejected"]
	for field, raw := range bad {
		logged := len(env.LogSince())
		if err := env.UpdateRaw(t, raw); !errors.Is(err, rig.ErrUpdateRejected) {
			t.Fatalf("%s: %v, want %v", raw, err, rig.ErrUpdateRejected)
		}
		if !strings.Contains(env.LogSince()[logged:], field) {
			t.Errorf("the log doesn't name %s", field)
		}
	}
	if got := env.FilterCounts(t)["config_rejected"] - before; got != int64(len(bad)) {
		t.Errorf("config_rejected grew by %d, want %d", got, len(bad))
	}
	env.CheckRefused(t, env.Do(t, rig.Call{}), "model", rig.Rejected)
	env.Up.Open("held")
	mustBeOK(t, "the held one", held.Wait())
	env.DrainCheck(t, "model", 1)
}

func TestCase_O13_ZeroAndAbsent(t *testing.T) {
	cases := []struct {
		name    string
		pool    rig.Pool
		limit   int
		counter string
	}{
		{"limit 0 is closed, whatever the queue", modelPool(0, 5, longWait), 0, "rejected_closed"},
		{"queue 0 is no waiting", modelPool(1, 0, longWait), 1, "rejected_queue_full"},
		{"queue absent is no waiting", rig.Pool{Name: "model", Limit: 1}, 1, "rejected_queue_full"},
		{"max_wait 0 is no waiting", modelPool(1, 5, "0s"), 1, "rejected_queue_full"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			env := governed(t, 2, c.pool)
			var held []*rig.Pending
			for i := range c.limit {
				held = append(held, env.Hold(t, fmt.Sprint(i)))
			}
			for range 3 {
				r := env.Do(t, rig.Call{})
				env.CheckRefused(t, r, "model", rig.Rejected)
				checkTook(t, r, 0)
			}
			env.CheckCounts(t, "model", rig.Counts{c.counter: 3, "evaluated": 3 + int64(c.limit)})
			for i, p := range held {
				env.Up.Open(fmt.Sprint(i))
				mustBeOK(t, "a held one", p.Wait())
			}
			env.DrainCheck(t, "model", c.limit)
		})
	}
}

func TestCase_O13_ZeroForOneKey(t *testing.T) {
	pool := tenantPool(2, 0)
	pool.Keys = map[string]any{"shut": rig.Object{"limit": 0}}
	env := governed(t, 2, pool)
	env.CheckRefused(t, env.Do(t, rig.Call{Tenant: "shut"}), "tenant", rig.Rejected)
	env.CheckCounts(t, "tenant", rig.Counts{"rejected_closed": 1})
	env.DrainCheck(t, "tenant", 2, rig.Call{Tenant: "open"})
}

func TestCase_O14_HugeQueueBehindOnePermit(t *testing.T) {
	const waiters = 50
	for _, queue := range []int64{1_000_000, 1<<31 - 1} {
		t.Run(fmt.Sprint(queue), func(t *testing.T) {
			env, accepted := tryPool(t, modelPool(1, queue, longWait), "queue")
			if !accepted {
				return
			}
			held := env.Hold(t, "held")
			var calls []*rig.Pending
			for range waiters {
				calls = append(calls, env.Send(t, rig.Call{}))
			}
			env.AwaitGauge(t, "model", "queued", waiters)
			env.Up.Open("held")
			mustBeOK(t, "the held one", held.Wait())
			for _, r := range rig.WaitAll(calls) {
				mustBeOK(t, "a waiter", r)
			}
			env.DrainCheck(t, "model", 1)
		})
	}
}

// Cut to 32 bits these limits would be 1, 0 and -1.
func TestCase_O14_HugeLimitIsRefusedOrWorks(t *testing.T) {
	for _, limit := range []int64{1<<32 + 1, 1 << 32, 1<<63 - 1, 1<<31 - 1} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			env, accepted := tryPool(t, modelPool(limit, 0, ""), "limit")
			if !accepted {
				return
			}
			for i := range 5 {
				env.Hold(t, fmt.Sprint(i))
			}
			env.Up.Open("0", "1", "2", "3", "4")
			env.AwaitDrained(t, "model")
		})
	}
}

// tryPool gives the running listener a pool that may be refused, if so by naming the field.
func tryPool(t *testing.T, pool rig.Pool, field string) (env *rig.Env, accepted bool) {
	t.Helper()
	env = governed(t, 2, modelPool(1, 0, ""))
	logged := len(env.LogSince())
	err := env.Update(t, rig.Config{Pools: []rig.Pool{pool}})
	if err != nil && (!errors.Is(err, rig.ErrUpdateRejected) || !strings.Contains(env.LogSince()[logged:], field)) {
		t.Errorf("refused without naming %s: %v", field, err)
	}
	return env, err == nil
}
