package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/headgate/headgate/envoy"
)

var (
	errNoUpstream = errors.New("--upstream is missing: where is the model API? e.g. --upstream https://api.example.com")
	errNoTarget   = errors.New("render what? want `headgate render envoy` or `headgate render istio`")
)

func runRender(term terminal, args []string) error {
	g := defaultGateway()
	flags := newFlagSet("render")
	g.flags(flags)
	flags.Bool("version", false, "print the version")
	if len(args) == 0 || (args[0] != "envoy" && args[0] != "istio" && args[0] != "-h" && args[0] != "--help") {
		return errNoTarget
	}
	if args[0] != "envoy" && args[0] != "istio" {
		return flags.parseAll(term, args)
	}
	if err := flags.parseAll(term, args[1:]); err != nil {
		return err
	}
	if flags.given("version") {
		return printVersion(term)
	}
	if err := g.settle(flags); err != nil {
		return err
	}
	render := map[string]func() ([]byte, error){"envoy": g.renderBootstrap, "istio": g.renderWasmPlugin}[args[0]]
	text, err := render()
	if err != nil {
		return err
	}
	_, err = term.out.Write(text)
	return err
}

// Where envoy.yaml keeps what the gateway's flags decide.
const (
	listenerPath   = "static_resources/listeners/0/"
	connectionPath = listenerPath + "filter_chains/0/filters/0/typed_config/"
	filterPath     = connectionPath + "http_filters/0/typed_config/config/"
	routePath      = connectionPath + "route_config/virtual_hosts/0/routes/0/route/"
	otherRoutePath = connectionPath + "route_config/virtual_hosts/0/routes/1/route/" // of what is never retried
	clusterPath    = "static_resources/clusters/0/"
	protocolPath   = clusterPath + "typed_extension_protocol_options/envoy.extensions.upstreams.http.v3.HttpProtocolOptions/"

	// The filters of each try, and in them what the listener's filter has too.
	upstreamFilters = protocolPath + "http_filters"
	tryPath         = upstreamFilters + "/0/typed_config/config/"
	endpointPath    = clusterPath + "load_assignment/endpoints/0/lb_endpoints/0/endpoint/"
)

// renderBootstrap returns envoy.yaml with the gateway's values.
func (g *gateway) renderBootstrap() ([]byte, error) {
	if g.upstream == nil {
		return nil, errNoUpstream
	}
	wasm, err := filepath.Abs(g.wasm)
	if err != nil {
		return nil, err
	}
	e := editYAML(envoy.Bootstrap)
	config, err := g.plugin(e.text(filterPath + "configuration/value"))
	if err != nil {
		return nil, errors.Join(e.err, err)
	}
	e.setHead(g.head())
	for stage, filter := range g.stages() {
		e.set(filter+"configuration/value", config.at(stage))
		e.set(filter+"vm_config/code/local/filename", wasm)
	}
	e.setAddress("admin/", g.admin.Addr().String(), g.admin.Port())
	e.setAddress(listenerPath, g.bind.Addr().String(), g.bind.Port())
	g.setTimeouts(e)
	if g.noKeepAlive {
		e.set(protocolPath+"common_http_protocol_options/max_requests_per_connection", 1)
	}
	// The upstream comes before the retries, which may double its route.
	if err := g.upstream.setCluster(e); err != nil {
		return nil, err
	}
	if err := g.retries.set(e, config.Routes); err != nil {
		return nil, err
	}
	return e.bytes()
}

// stages are the stages that the plugin runs in, each with the path of its filter. Only where tries are repeated is there
// one of the tries.
func (g *gateway) stages() map[string]string {
	if !g.retries.on() {
		return map[string]string{"request": filterPath}
	}
	return map[string]string{"invocation": filterPath, "attempt": tryPath}
}

// head is what a rendered bootstrap says of itself.
func (g *gateway) head() string {
	return fmt.Sprintf(`A gateway to %s, governed by Headgate: a static bootstrap for Envoy 1.33 and newer, as headgate rendered it.
Start it with: envoy --disable-hot-restart --concurrency %d -c FILE`, g.upstream, g.workers)
}

// setTimeouts keeps Envoy's limits on a request that stands still above the wait that Headgate allows it.
func (g *gateway) setTimeouts(e *yamlEdit) {
	longest := g.queueTimeout * time.Duration(len(g.pools())) // a request may wait in each
	e.set(connectionPath+"request_timeout", envoySeconds(longest+5*time.Minute))
	e.set(connectionPath+"stream_idle_timeout", envoySeconds(longest+10*time.Minute))
}

func envoySeconds(d time.Duration) string {
	return fmt.Sprintf("%ds", (d+time.Second-1)/time.Second)
}

// envoyDuration is a duration as Envoy reads it.
func envoyDuration(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s"
}

func (e *yamlEdit) setAddress(path, host string, port uint16) {
	e.set(path+"address/socket_address/address", host)
	e.set(path+"address/socket_address/port_value", port)
}

// renderWasmPlugin returns wasmplugin.yaml with the gateway's limits. Where to listen and where to send is the mesh's.
func (g *gateway) renderWasmPlugin() ([]byte, error) {
	e := editYAML(envoy.WasmPlugin)
	g.retries.count = 0 // retries are a VirtualService's there, and a lone filter sees them as one request
	const config = "spec/pluginConfig/"
	plugin, err := g.plugin(editYAML(envoy.Bootstrap).text(filterPath + "configuration/value"))
	if err != nil {
		return nil, err
	}
	e.set(config+"routes", plugin.Routes)
	e.set(config+"pools", plugin.Pools)
	return e.bytes()
}
