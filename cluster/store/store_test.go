package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/cluster"
	"github.com/headgate/headgate/cluster/redistest"
)

const slow = 20 * time.Second

func open(t testing.TB, url string) *Store {
	t.Helper()
	address, err := ParseAddress(url)
	require.NoError(t, err)
	options := address.Options(Settings{})
	// Here a slow machine is no failure.
	options.DialTimeout, options.ReadTimeout, options.WriteTimeout, options.PoolTimeout = slow, slow, slow, slow
	s := New(options)
	t.Cleanup(func() { s.Close() })
	return s
}

// clockKey has the time in tests that set it.
const clockKey = "clock-of-the-test"

// withClock has a store take the time from a key, in place of Redis's clock.
func withClock(t *testing.T, s *Store) (set func(ms int64)) {
	t.Helper()
	text := strings.Replace(leaseText, "redis.call('TIME')", "redis.call('HMGET', '"+clockKey+"', 's', 'us')", 1)
	require.NotEqual(t, leaseText, text)
	s.script = redis.NewScript(text)
	return func(ms int64) {
		require.NoError(t, s.client.HSet(t.Context(), clockKey, "s", ms/1000, "us", ms%1000*1000).Err())
	}
}

// A twin is a store and a ledger that carry out the same calls.
type twin struct {
	t      *rapid.T
	store  *Store
	ledger *cluster.Ledger
	domain string
	setNow func(ms int64)
	now    int64
	calls  map[string]int64
	last   map[string]*cluster.LeaseCall
}

var twinKeys = []cluster.Key{{Pool: "gateway"}, {Pool: "model", Key: "m"}, {Pool: "model", Key: "a}b {"}, {Pool: "tenant", Key: "}{"}}

func (w *twin) draw(what string, most int64) int64 { return rapid.Int64Range(0, most).Draw(w.t, what) }

func (w *twin) call() *cluster.LeaseCall {
	call := &cluster.LeaseCall{Domain: w.domain, Replica: "r" + fmt.Sprint(w.draw("replica", 11)), TTL: 1000 + w.draw("ttl", 2)*2000}
	w.calls[call.Replica]++
	call.Call = w.calls[call.Replica]
	for _, k := range twinKeys {
		if w.draw("asks", 2) == 0 {
			continue
		}
		call.Pools = append(call.Pools, cluster.Ask{Key: k, Limit: 5 + w.draw("limit", 2)*3,
			Keep: w.draw("keep", 3), Wants: w.draw("wants", 9)})
	}
	return call
}

func (w *twin) carryOut(call *cluster.LeaseCall) {
	w.setNow(w.now)
	want, wantErr := w.ledger.Lease(w.now, call)
	got, now, err := w.store.lease(context.Background(), call)
	if wantErr != nil {
		require.ErrorIs(w.t, err, wantErr)
		return
	}
	require.NoError(w.t, err)
	require.Equal(w.t, w.now, now)
	require.Equal(w.t, want, got, "%+v", call)
}

func (w *twin) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"call": func(*rapid.T) {
			call := w.call()
			w.last[call.Replica] = call
			w.carryOut(call)
		},
		"repeat": func(*rapid.T) {
			if call := w.last["r"+fmt.Sprint(w.draw("replica", 11))]; call != nil {
				w.carryOut(call)
			}
		},
		"late": func(*rapid.T) {
			call := w.call()
			call.Call = max(1, call.Call-1-w.draw("late", 2))
			w.carryOut(call)
		},
		"time": func(*rapid.T) { w.now += w.draw("ms", 1500) },
		"clock set back": func(*rapid.T) {
			if w.draw("rarely", 20) == 0 {
				w.now -= w.draw("ms", 100_000)
			}
		},
		"limit": func(*rapid.T) {
			k := twinKeys[w.draw("key", int64(len(twinKeys)-1))]
			call := &cluster.LimitCall{Domain: w.domain, Pool: k.Pool}
			if w.draw("for a key", 1) == 1 {
				call.Key = &k.Key
			}
			if limit := w.draw("limit", 8); limit < 8 {
				call.Limit = &limit
			}
			require.NoError(w.t, w.ledger.SetLimit(call))
			require.NoError(w.t, w.store.SetLimit(context.Background(), call))
		},
	}
}

// The script in Redis and the pure ledger give the same answers to the same calls at the same times.
func TestTheScriptDoesWhatTheLedgerDoes(t *testing.T) {
	s := open(t, redistest.Start(t).URL())
	setNow := withClock(t, s)
	cases := 0
	rapid.Check(t, func(t *rapid.T) {
		cases++
		w := &twin{t: t, store: s, ledger: cluster.NewLedger(), domain: fmt.Sprintf("d%d", cases), setNow: setNow,
			now: 1_700_000_000_000, calls: map[string]int64{}, last: map[string]*cluster.LeaseCall{}}
		t.Repeat(w.actions())
	})
}

// Where there are many replicas, a division is used for more than one call, and the dead are forgotten bit by bit.
func TestTheScriptDoesWhatTheLedgerDoesWithManyReplicas(t *testing.T) {
	s := open(t, redistest.Start(t).URL())
	setNow := withClock(t, s)
	ledger, now := cluster.NewLedger(), int64(1_700_000_000_000)
	rapid.Check(t, func(t *rapid.T) {
		domain := "crowd"
		w := &twin{t: t, store: s, ledger: ledger, domain: domain, setNow: setNow, now: now}
		for range 30 {
			call := &cluster.LeaseCall{Domain: domain, Replica: "r" + fmt.Sprint(w.draw("replica", 300)), Call: now, TTL: 2000}
			call.Pools = []cluster.Ask{{Key: twinKeys[0], Limit: 100, Keep: w.draw("keep", 1), Wants: w.draw("wants", 4)}}
			now += w.draw("ms", 12)
			w.now = now
			w.carryOut(call)
		}
		if w.draw("pause", 20) == 0 {
			now += 2500
		}
	})
}

// The same with the script as it is, by Redis's own clock.
func TestTheScriptTakesTheTimeFromRedis(t *testing.T) {
	s := open(t, redistest.Start(t).URL())
	ledger := cluster.NewLedger()
	before := time.Now().UnixMilli()
	for call := range int64(50) {
		asked := &cluster.LeaseCall{Domain: "d", Replica: fmt.Sprint("r", call%3), Call: call + 1, TTL: 1000,
			Pools: []cluster.Ask{{Key: twinKeys[1], Limit: 6, Keep: 1, Wants: call % 5}}}
		got, now, err := s.lease(t.Context(), asked)
		require.NoError(t, err)
		want, err := ledger.Lease(now, asked)
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.GreaterOrEqual(t, now, before)
		require.LessOrEqual(t, now, time.Now().UnixMilli())
	}
}

func TestKeysExpireByThemselves(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server.URL())
	call := &cluster.LeaseCall{Domain: "d", Replica: "r", Call: 1, TTL: 5000, Pools: []cluster.Ask{{Key: twinKeys[1], Limit: 6}}}
	_, err := s.Lease(t.Context(), call)
	require.NoError(t, err)
	six := int64(6)
	require.NoError(t, s.SetLimit(t.Context(), &cluster.LimitCall{Domain: "d", Pool: "model", Limit: &six}))
	keys := server.Do("keys", "*").([]any)
	require.Len(t, keys, 6)
	for _, name := range keys {
		require.Contains(t, name, "headgate:{d}:")
		left := server.Do("pttl", name).(int64)
		if name == key("d", keyLimits) {
			require.EqualValues(t, -1, left, "what was set by hand stays")
		} else {
			require.True(t, 0 < left && left <= 600_000, "%s: %d", name, left)
		}
	}
}

// The script is loaded again where a server has forgotten it.
func TestAServerWithoutTheScriptGetsIt(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server.URL())
	for call := range int64(3) {
		_, err := s.Lease(t.Context(), &cluster.LeaseCall{Domain: "d", Replica: "r", Call: call + 1, TTL: 5000})
		require.NoError(t, err)
		server.Do("script", "flush")
	}
}

func TestBoundsOfADomain(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server.URL())
	client := server.Client()
	for i := range cluster.MaxReplicas {
		require.NoError(t, client.ZAdd(t.Context(), key("d", keyLive), redis.Z{Score: 9e12, Member: i}).Err())
		if i < cluster.MaxOverrides-1 {
			require.NoError(t, client.HSet(t.Context(), key("d", keyLimits), i, 1).Err())
		}
	}
	_, err := s.Lease(t.Context(), &cluster.LeaseCall{Domain: "d", Replica: "r", Call: 1, TTL: 5000})
	require.ErrorIs(t, err, cluster.ErrFull)
	one := int64(1)
	require.NoError(t, s.SetLimit(t.Context(), &cluster.LimitCall{Domain: "d", Pool: "last", Limit: &one}))
	require.ErrorIs(t, s.SetLimit(t.Context(), &cluster.LimitCall{Domain: "d", Pool: "more", Limit: &one}), cluster.ErrOverrides)
	require.NoError(t, s.SetLimit(t.Context(), &cluster.LimitCall{Domain: "d", Pool: "last", Limit: &one}))
	require.NoError(t, s.SetLimit(t.Context(), &cluster.LimitCall{Domain: "d", Pool: "last"}))
	require.NoError(t, s.SetLimit(t.Context(), &cluster.LimitCall{Domain: "d", Pool: "more", Limit: &one}))
}

func TestStateIsWhatTheCallsSaid(t *testing.T) {
	s := open(t, redistest.Start(t).URL())
	for i, wants := range []int64{12, 0} {
		_, err := s.Lease(t.Context(), &cluster.LeaseCall{Domain: "d", Replica: fmt.Sprint("r", i), Call: 1, TTL: 5000,
			Pools: []cluster.Ask{{Key: twinKeys[1], Limit: 6 + int64(i), Keep: 2, Wants: wants}}})
		require.NoError(t, err)
	}
	state, err := s.State(t.Context(), "d")
	require.NoError(t, err)
	require.Len(t, state.Replicas, 2)
	require.Positive(t, state.Learning)
	require.Len(t, state.Pools, 1)
	got := state.Pools[0]
	require.Equal(t, []any{int64(6), "config", int64(4), int64(12)}, []any{got.Limit, got.Source, got.Granted, got.Wanted})
	require.Equal(t, []any{"r0", int64(2), int64(12), int64(6)}, []any{got.Replicas[0].Replica, got.Replicas[0].Granted, got.Replicas[0].Wants, got.Replicas[0].Limit})
	three := int64(3)
	require.NoError(t, s.SetLimit(t.Context(), &cluster.LimitCall{Domain: "d", Pool: "model", Limit: &three}))
	state, err = s.State(t.Context(), "d")
	require.NoError(t, err)
	require.EqualValues(t, 3, state.Pools[0].Limit)
	require.Equal(t, "override", state.Pools[0].Source)
	empty, err := s.State(t.Context(), "other")
	require.NoError(t, err)
	require.Empty(t, empty.Pools)
}

func TestReadySaysWhatIsWrong(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server.URL())
	require.NoError(t, s.Ready(t.Context()))
	server.Do("config", "set", "maxmemory-policy", "allkeys-lru")
	require.ErrorContains(t, s.Ready(t.Context()), "maxmemory-policy allkeys-lru")
	server.Do("config", "set", "maxmemory-policy", "noeviction")
	server.Kill()
	require.ErrorContains(t, s.Ready(t.Context()), "no answer from Redis")
	_, err := s.Lease(t.Context(), &cluster.LeaseCall{Domain: "d", Replica: "r", Call: 1, TTL: 5000})
	require.Error(t, err)
	require.False(t, errors.Is(err, cluster.ErrLate))
}

// A Redis that hangs costs a call no more than the bound.
func TestARedisThatHangsEndsTheCall(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, server.URL())
	require.NoError(t, s.Ready(t.Context()))
	server.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := s.Lease(ctx, &cluster.LeaseCall{Domain: "d", Replica: "r", Call: 1, TTL: 5000})
	require.Error(t, err)
	server.Resume()
	require.True(t, redistest.Poll(10*time.Second, func() bool { return s.Ready(t.Context()) == nil }))
}
