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
	Stages   bool                           // Config is the invocation stage here, and the attempt stage in the clusters
	Targets  []Object                       // clusters besides the upstream's that have the attempt stage too
	TLS      *Authority                     // the listener speaks TLS and asks clients for certificates of this authority
	Manager  Object                         // fields of the HTTP connection manager
	Upstream func(cluster Object) Object    // changes the upstream's cluster
	Buffer   int                            // per_connection_buffer_limit_bytes; 0: Envoy's default
	NoBodies bool                           // without allow_on_headers_stop_iteration
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

// New gives the test a listener in the Envoy. It is removed at the test's end, which fails if Envoy has died or a VM
// has trapped meanwhile.
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
	env := &Env{Envoy: e, Up: NewUpstream(t), Port: port, name: fmt.Sprintf("t%d", envs.Add(1)), setup: s,
		mark: len(e.Log())}
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
	for _, cluster := range append(e.targets(t, e.setup), e.setup.Clusters...) {
		if err := e.SetCluster(cluster); err != nil {
			t.Fatalf("cluster %v: %v\n%s", cluster["name"], err, tail(e.LogSince(), 10))
		}
	}
	if err := e.SetListener(e.listener(t, e.setup)); err != nil {
		t.Fatalf("listener %s: %v\n%s", e.name, err, tail(e.LogSince(), 10))
	}
}

// targets are the upstream's cluster and those like it, with the attempt stage if there is one.
func (e *Env) targets(t testing.TB, s Setup) []Object {
	t.Helper()
	upstream := Cluster(e.name, e.Up.Port)
	if s.Upstream != nil {
		upstream = s.Upstream(upstream)
	}
	clusters := append([]Object{upstream}, s.Targets...)
	if !s.Stages {
		return clusters
	}
	filter := WasmFilter(e.name+"-attempt", "headgate", e.module, e.configuration(t, s, "attempt"))
	for i, c := range clusters {
		clusters[i] = withUpstreamFilter(c, filter)
	}
	return clusters
}

// Update replaces the plugin configuration of the running listener. If Envoy refuses it the error is ErrUpdateRejected.
func (e *Env) Update(t testing.TB, c Config) error {
	t.Helper()
	s := e.setup
	s.Config, s.Raw = &c, ""
	if s.Stages {
		for _, cluster := range e.targets(t, s) {
			if err := e.SetCluster(cluster); err != nil {
				return err
			}
		}
	}
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
	stage := "request"
	if s.Stages {
		stage = "invocation"
	}
	if raw := e.configuration(t, s, stage); raw != "" {
		filter := WasmFilter(e.name, "headgate", e.module, raw)
		if s.NoBodies {
			delete(filter["typed_config"].(Object)["config"].(Object), "allow_on_headers_stop_iteration")
		}
		filters = append(filters, filter)
	}
	filters = append(filters, s.After...)
	routes := []Object{Route("/", e.name)}
	if s.Routes != nil {
		routes = s.Routes(e.name)
	}
	listener := HTTPListener(e.name, e.Port, filters, routes, s.Manager)
	if s.Buffer != 0 {
		listener["per_connection_buffer_limit_bytes"] = s.Buffer
	}
	if s.TLS != nil {
		withTLS(listener, s.TLS)
	}
	return listener
}

func (e *Env) configuration(t testing.TB, s Setup, stage string) string {
	t.Helper()
	if s.Config == nil {
		return s.Raw
	}
	raw, err := encode(s.Config.object(stage, e.pools, e.PoolName))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// PoolName is the name under which Envoy knows the pool that the test's Config calls so: metrics of one name are one
// object for all listeners, so no two tests may share a name.
func (e *Env) PoolName(pool string) string { return e.pools + "_" + pool }

// URL is where clients that are not the rig's find the gateway.
func (e *Env) URL() string { return fmt.Sprintf("http://127.0.0.1:%d", e.Port) }

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
	for _, cluster := range append(e.setup.Targets, e.setup.Clusters...) {
		names = append(names, cluster["name"].(string))
	}
	if err := e.Remove(names...); err != nil {
		t.Errorf("remove the listener: %v", err)
	}
}
