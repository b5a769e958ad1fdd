package rig

import (
	"fmt"
	"sync/atomic"
	"testing"
)

// A Setup says what stands between a test's clients and its upstream.
type Setup struct {
	Config   *Config                        // nil: no filter of ours
	Raw      string                         // a plugin configuration as it is, in place of Config
	Before   []Object                       // filters before ours
	After    []Object                       // filters between ours and the router
	Routes   func(upstream string) []Object // nil: everything goes to the upstream's cluster, without a timeout
	Clusters []Object                       // besides the upstream's
	Manager  Object                         // fields of the HTTP connection manager
	Upstream func(cluster Object) Object    // changes the upstream's cluster
	PoolsOf  *Env                           // domain and pool names are those of this one, so equal pools are shared
}

// An Env is a test's own listener, cluster and upstream in an Envoy that it may share with other tests.
type Env struct {
	*Envoy
	Up   *Upstream
	Port int

	name   string // of the listener and the upstream's cluster
	pools  string // the domain, and what the pools' names begin with
	setup  Setup
	module string
	mark   int // length of Envoy's log when this test began
}

var envs atomic.Int64

// New gives the test a listener in the Envoy. It is removed at the test's end, which fails if Envoy has died or a VM has
// trapped meanwhile.
func New(t testing.TB, e *Envoy, s Setup) *Env {
	t.Helper()
	env := prepareEnv(t, e, s)
	env.apply(t)
	return env
}

func prepareEnv(t testing.TB, e *Envoy, s Setup) *Env {
	t.Helper()
	port, err := FreePort()
	if err != nil {
		t.Fatal(err)
	}
	env := &Env{Envoy: e, Up: NewUpstream(t), Port: port, name: fmt.Sprintf("t%d", envs.Add(1)), setup: s, mark: len(e.Log())}
	env.pools = env.name
	if s.PoolsOf != nil {
		env.pools = s.PoolsOf.pools
	}
	if s.Config != nil || s.Raw != "" {
		if env.module, err = WasmPath(); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { env.finish(t) })
	return env
}

// apply hands the clusters and the listener to Envoy.
func (e *Env) apply(t testing.TB) {
	t.Helper()
	upstream := Cluster(e.name, e.Up.Port)
	if e.setup.Upstream != nil {
		upstream = e.setup.Upstream(upstream)
	}
	for _, cluster := range append([]Object{upstream}, e.setup.Clusters...) {
		if err := e.SetCluster(cluster); err != nil {
			t.Fatalf("cluster %v: %v", cluster["name"], err)
		}
	}
	if err := e.SetListener(e.listener(t, e.setup)); err != nil {
		t.Fatalf("listener %s: %v\n%s", e.name, err, tail(e.LogSince(), 10))
	}
}

// Update replaces the plugin configuration of the running listener. If Envoy refuses it the error is ErrUpdateRejected.
func (e *Env) Update(t testing.TB, c Config) error {
	t.Helper()
	s := e.setup
	s.Config, s.Raw = &c, ""
	return e.SetListener(e.listener(t, s))
}

// UpdateRaw is Update with a configuration as it is.
func (e *Env) UpdateRaw(t testing.TB, raw string) error {
	t.Helper()
	s := e.setup
	s.Config, s.Raw = nil, raw
	return e.SetListener(e.listener(t, s))
}

func (e *Env) listener(t testing.TB, s Setup) Object {
	t.Helper()
	filters := append([]Object{}, s.Before...)
	if raw := e.configuration(t, s); raw != "" {
		filters = append(filters, WasmFilter(e.name, "headgate", e.module, raw))
	}
	filters = append(filters, s.After...)
	routes := []Object{Route("/", e.name)}
	if s.Routes != nil {
		routes = s.Routes(e.name)
	}
	return HTTPListener(e.name, e.Port, filters, routes, s.Manager)
}

func (e *Env) configuration(t testing.TB, s Setup) string {
	t.Helper()
	if s.Config == nil {
		return s.Raw
	}
	raw, err := encode(s.Config.object(e.pools, e.PoolName))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// PoolName is the name under which Envoy knows the pool that the test's Config calls so: metrics of one name are one object
// for all listeners, so no two tests may share a name.
func (e *Env) PoolName(pool string) string { return e.pools + "_" + pool }

// LogSince is what Envoy has logged since the test's begin.
func (e *Env) LogSince() string { return e.Log()[e.mark:] }

// CheckAlive fails the test if Envoy has died or a VM has trapped.
func (e *Env) CheckAlive(t testing.TB) {
	t.Helper()
	if !e.Alive() {
		t.Fatalf("Envoy died; its log ends with:\n%s", tail(e.LogSince(), 30))
	}
	if lines := traps(e.LogSince()); len(lines) > 0 {
		t.Fatalf("a VM trapped:\n%s", lines[0])
	}
}

func (e *Env) finish(t testing.TB) {
	defer func() {
		if t.Failed() {
			t.Logf("Envoy's log during the test:\n%s", tail(e.LogSince(), 40))
		}
	}()
	if !e.Alive() {
		t.Errorf("Envoy died")
		return
	}
	if lines := traps(e.LogSince()); len(lines) > 0 {
		t.Errorf("a VM trapped:\n%s", lines[0])
	}
	names := []string{e.name}
	for _, cluster := range e.setup.Clusters {
		names = append(names, cluster["name"].(string))
	}
	if err := e.Remove(names...); err != nil {
		t.Errorf("remove the listener: %v", err)
	}
}
