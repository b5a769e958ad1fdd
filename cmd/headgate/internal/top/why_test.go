package top

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/cmd/headgate/internal/adminapi"
)

func TestWhyAKeyIsAsItIs(t *testing.T) {
	acme := func(runs, waits int) adminapi.Tenant {
		return adminapi.Tenant{Tenant: "acme", Inflight: runs, Queued: waits}
	}
	zeta := func(runs, waits int) adminapi.Tenant {
		return adminapi.Tenant{Tenant: "zeta", Inflight: runs, Queued: waits}
	}
	for _, c := range []struct {
		key     adminapi.Key
		tenants []adminapi.Tenant
		queue   int
		trouble trouble
		want    string
	}{
		{adminapi.Key{Limit: 8, Usable: 8, Inflight: 3}, nil, 5, troubleNone, ""},
		{adminapi.Key{Limit: 8, Usable: 8, Configured: 4, Source: "override"}, nil, 5, troubleNone,
			"limit changed by hand, the configuration has 4"},
		{adminapi.Key{}, nil, 5, troubleRefuses, "shut: the limit is 0, every request is refused"},
		{adminapi.Key{Limit: 8, Usable: 8, Breaker: "open", BreakerChangeMillis: 11_200}, nil, 5, troubleRefuses,
			"provider: breaker open, next try in 12 s"},
		{adminapi.Key{Limit: 8, Usable: 8, Breaker: "half_open"}, nil, 5, troubleRefuses,
			"provider: breaker half open, one request tries whether it answers again"},
		{adminapi.Key{Limit: 17, Usable: 17, Inflight: 17, Queued: 13, OldestWaitMillis: 740},
			[]adminapi.Tenant{acme(11, 0), zeta(6, 13)}, 40, troubleWaiting,
			"full: acme runs 11 of 17; 13 wait, all zeta's"},
		{adminapi.Key{Limit: 4, Usable: 4, Inflight: 4, Queued: 3, OldestWaitMillis: 1500},
			[]adminapi.Tenant{acme(4, 1), zeta(0, 2)}, 40, troubleWaiting,
			"full: acme runs all 4; 3 wait, 2 of them zeta's"},
		{adminapi.Key{Limit: 4, Usable: 4, Inflight: 4, Queued: 19}, []adminapi.Tenant{acme(4, 19)}, 40, troubleWaiting,
			"full: acme runs all 4; all 19 that wait are its own"},
		{adminapi.Key{Limit: 4, Usable: 4, Inflight: 4, Queued: 9}, []adminapi.Tenant{acme(4, 5), zeta(0, 4)}, 40, troubleWaiting,
			"full: acme runs all 4; 9 wait, 5 of them its own"},
		{adminapi.Key{Limit: 4, Usable: 4, Inflight: 6, Queued: 9}, []adminapi.Tenant{acme(6, 9)}, 40, troubleWaiting,
			"2 over the limit: 6 run, none is let in until fewer than 4 do; 9 wait, all acme's"},
		{adminapi.Key{Limit: 8, Usable: 8, Breaker: "open", BreakerChangeMillis: 9000, Queued: 2}, []adminapi.Tenant{acme(0, 2)},
			5, troubleRefuses, "provider: breaker open, next try in 9 s; 2 wait, all acme's, the next try comes after their wait ends"},
		{adminapi.Key{Limit: 8, Usable: 8, Breaker: "open", BreakerChangeMillis: 900, Queued: 2}, nil, 5, troubleRefuses,
			"provider: breaker open, next try in 900 ms; 2 wait"},
		{adminapi.Key{Limit: 4, Usable: 4, Inflight: 4}, nil, 0, troubleFull, "full: 4 of 4 run; no queue, the next gets 429"},
		{adminapi.Key{Limit: 4, Usable: 4, Inflight: 4}, nil, 3, troubleFull, "full: 4 of 4 run"},
		{adminapi.Key{Limit: 4, Usable: 4, Inflight: 4, Queued: 3}, nil, 3, troubleRefuses,
			"full: 4 of 4 run; the queue of 3 is full, the next gets 429"},
		{adminapi.Key{Limit: 4, Usable: 4, Inflight: 1, OnHold: 3, HoldChangeMillis: 90, Queued: 1, OldestWaitMillis: 5},
			[]adminapi.Tenant{acme(1, 1)}, 9, troubleWaiting,
			"full: acme runs 1 of 4, 3 of 4 on hold after their requests, first back in 90 ms; 1 waits, its own"},
		{adminapi.Key{Limit: 4, Usable: 4, Inflight: 9}, nil, 9, troubleFull,
			"5 over the limit: 9 run, none is let in until fewer than 4 do"},
		{adminapi.Key{Limit: 8, Usable: 5, Inflight: 5, Queued: 2, HeadroomChangeMillis: 30_000}, nil, 9, troubleWaiting,
			"provider: after its 429s only 5 of 8 permits can be used, more in 30 s; 2 wait"},
		{adminapi.Key{Limit: 8, Usable: 7, PenaltyMillis: 2000}, nil, 9, troubleFull,
			"provider: after its failures only 7 of 8 permits can be used, more in 2 s"},
		{adminapi.Key{Limit: 8, Usable: 8, Inflight: 5, Queued: 2}, nil, 9, troubleWaiting,
			"permits are free: 2 that wait get them now"},
	} {
		key := &Key{Key: c.key}
		key.Tenants = c.tenants
		got := why(&Pool{Pool: adminapi.Pool{Queue: c.queue, MaxWaitMillis: 5000}}, key)
		require.Equal(t, finding{c.trouble, c.want}, got)
	}
}

// In a fair queue a tenant may have as many places as are free.
func TestWhyATenantIsRefusedBeforeTheQueueIsFull(t *testing.T) {
	pool := &Pool{Pool: adminapi.Pool{Queue: 8, Fair: true}}
	key := &Key{Key: adminapi.Key{Limit: 3, Usable: 3, Inflight: 3, Queued: 4, OldestWaitMillis: 20,
		Tenants: []adminapi.Tenant{{Tenant: "acme", Inflight: 3}, {Tenant: "zeta", Queued: 4}}}}
	require.Equal(t, finding{troubleRefuses,
		"full: acme runs all 3; 4 wait, all zeta's, whose next gets 429"}, why(pool, key))
	key.Queued, key.Tenants[1].Queued = 3, 3
	require.Equal(t, finding{troubleWaiting, "full: acme runs all 3; 3 wait, all zeta's"}, why(pool, key))
	pool.Fair, key.Queued, key.Tenants[1].Queued = false, 7, 7
	require.Equal(t, finding{troubleWaiting, "full: acme runs all 3; 7 wait, all zeta's"}, why(pool, key))
}

// A key may be pressed at the row that happens to be chosen: the question says what it changes, however narrow the screen.
func TestAChangeIsNamedOnAnyScreen(t *testing.T) {
	for _, width := range []int{40, 80, 200} {
		q := question{kind: questionConfirm, change: change{name: "model/" + strings.Repeat("long", 20), parts: []Share{{Limit: 17, Configured: 8}}, limit: 23, waiting: 13}}
		line, _ := q.prompt(themeOf(false, true), width)
		require.LessOrEqual(t, widthOf(line), width)
		require.Regexp(t, `^ mod.*…\w+: limit 17 -> 23, 13 wait\. y/n$`, ansi.Strip(line))
	}
}

// u is offered where it takes something back, and says what.
func TestTheWayBackIsOffered(t *testing.T) {
	m := newModel(t.Context(), Options{}, nil, false)
	key := &Key{Key: adminapi.Key{Name: "m1", Limit: 23, Configured: 17, Source: adminapi.SourceOverride, Usable: 23}}
	m.state = &State{Pools: []*Pool{{Pool: adminapi.Pool{Name: "model", Dimensions: []string{"model"}}, Keys: []*Key{key}}}}
	m.arrange()
	m.width = 80
	require.Contains(t, ansi.Strip(m.hints()), " q quit  u back to 17 ")
	m.width = 120
	require.Contains(t, ansi.Strip(m.hints()), " u back to 17, as configured  s sort ")
	key.Source = adminapi.SourceConfig
	m.arrange()
	require.NotContains(t, m.hints(), "back")
}
