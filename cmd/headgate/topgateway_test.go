package main

import (
	"fmt"
	"net"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/envoy/rig"
)

// watchedConfiguration is that of a gateway with an admin listener: %s is the stage.
const watchedConfiguration = `{"stage": %q, "domain": "watched", "mode": "enforce",
	"identity": {"tenant": [{"header": "x-tenant", "trusted": true}], "model": [{"header": "x-model"}]},
	"pools": [{"name": "all", "limit": 137},
		{"name": "model", "key": ["model"], "limit": 3, "queue": 8, "max_wait": "60s", "fair_by": "tenant"}]}`

// startWatched starts an Envoy with Headgate and its admin listener, and returns the listener's address: the usual one
// if it is free.
func startWatched(t *testing.T, configuration string) (*rig.Env, string) {
	t.Helper()
	envoy := rig.Start(t, rig.Options{Workers: 2})
	gateway := rig.New(t, envoy, rig.Setup{Raw: fmt.Sprintf(configuration, "request")})
	port := 10001
	if listener, err := net.Listen("tcp", "127.0.0.1:10001"); err == nil {
		listener.Close()
	} else {
		port, err = rig.FreePort()
		require.NoError(t, err)
	}
	module, err := rig.WasmPath()
	require.NoError(t, err)
	filter := rig.WasmFilter("admin", "headgate", module, fmt.Sprintf(configuration, "admin"))
	require.NoError(t, envoy.SetListener(rig.HTTPListener("admin", port, []rig.Object{filter}, nil, nil)))
	return gateway, "127.0.0.1:" + strconv.Itoa(port)
}

func TestTopOnARealGateway(t *testing.T) {
	gateway, admin := startWatched(t, watchedConfiguration)
	request := func(id, tenant string) rig.Call {
		return rig.Call{Script: rig.Script{ID: id, HeaderGate: id}, Tenant: tenant, Model: "m1"}
	}
	running := []*rig.Pending{}
	for i := range 3 {
		running = append(running, gateway.Run(t, request(fmt.Sprint("a", i), "acme")))
	}
	s := startScreen(t, 80, 24, nil, "--admin", admin)
	s.shows(`model +m1 +3 +3 +0 +0 +– acme 3`, `full: acme runs all 3`, `all +– +137 +3 `)
	waiting := []*rig.Pending{}
	for i := range 4 { // of a queue of 8: it may have as many places as are free
		waiting = append(waiting, gateway.Send(t, request(fmt.Sprint("z", i), "zeta")))
	}
	s.shows(`model +m1 +3 +3 +0 +4 +\S+ acme 3`, `4 wait, all zeta's, whose next gets 429`)
	refused := gateway.Do(t, request("late", "zeta"))
	require.Equal(t, 429, refused.Status)

	s.keys("\r")
	s.shows(`acme +3 +0 +1`, `zeta +0 +4 +1`, `refused +zeta .*429 no place`)
	s.keys("9999999\ry")
	s.shows(`9999999.*1000000`) // the gateway's own words, which have the bound
	s.keys("\r5\r")
	s.shows(`model/m1: limit 3 -> 5, 4 wait\. y/n`)
	s.keys("y")
	s.shows(`limit 5 \(changed by hand, configured: 3\)   5 run   0 on hold   2 wait`, `limit 3 -> 5`)
	woken := func() int {
		n := 0
		for i := range waiting {
			if gateway.Up.Saw(fmt.Sprint("z", i)) {
				n++
			}
		}
		return n
	}
	rig.Eventually(t, screenWithin, "two waiters run", func() bool { return woken() == 2 })
	s.keys("u")
	s.shows(`model/m1: limit 5 -> 3 \(the configuration's\), 2 wait`)
	s.keys("y")
	s.shows(`2 over the limit: 5 run, none is let in until fewer than 3 do`)
	for i := range running {
		gateway.Up.Open(fmt.Sprint("a", i))
	}
	for i := range waiting {
		gateway.Up.Open(fmt.Sprint("z", i))
	}
	rig.WaitAll(append(running, waiting...))
	s.shows(`limit 3   0 run   0 on hold   nobody waits`, `whole +zeta`)
	s.keys("q")
	s.requireEnded()

	status, out, errs := call("", "top", "--once", "--admin", admin)
	require.Equal(t, 0, status, errs)
	require.Regexp(t, `(?m)^model +m1 +3 +0 +0 +0 `, out)
}
