package main

import (
	"errors"
	"fmt"
	"path/filepath"
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
	if len(args) == 0 || (args[0] != "envoy" && args[0] != "istio" && args[0] != "-h" && args[0] != "--help") {
		return errNoTarget
	}
	if args[0] != "envoy" && args[0] != "istio" {
		return flags.parseAll(term, args)
	}
	if err := flags.parseAll(term, args[1:]); err != nil {
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
	clusterPath    = "static_resources/clusters/0/"
	endpointPath   = clusterPath + "load_assignment/endpoints/0/lb_endpoints/0/endpoint/"
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
	plugin, err := g.plugin(e.text(filterPath + "configuration/value"))
	if err != nil {
		return nil, errors.Join(e.err, err)
	}
	e.setHead(g.head())
	e.set(filterPath+"configuration/value", plugin)
	e.set(filterPath+"vm_config/code/local/filename", wasm)
	e.setAddress("admin/", g.admin.Addr().String(), g.admin.Port())
	e.setAddress(listenerPath, g.bind.Addr().String(), g.bind.Port())
	g.setTimeouts(e)
	if err := g.upstream.setCluster(e); err != nil {
		return nil, err
	}
	return e.bytes()
}

// head is what a rendered bootstrap says of itself.
func (g *gateway) head() string {
	return fmt.Sprintf(`A gateway to %s, governed by Headgate: a static bootstrap for Envoy 1.33 and newer, as headgate rendered it.
Start it with: envoy --disable-hot-restart --concurrency %d -c FILE`, g.upstream, g.workers)
}

// setTimeouts keeps Envoy's limits on a request that stands still above the wait that Headgate allows it.
func (g *gateway) setTimeouts(e *yamlEdit) {
	e.set(connectionPath+"request_timeout", envoySeconds(g.queueTimeout+5*time.Minute))
	e.set(connectionPath+"stream_idle_timeout", envoySeconds(g.queueTimeout+10*time.Minute))
}

func envoySeconds(d time.Duration) string {
	return fmt.Sprintf("%ds", (d+time.Second-1)/time.Second)
}

func (e *yamlEdit) setAddress(path, host string, port uint16) {
	e.set(path+"address/socket_address/address", host)
	e.set(path+"address/socket_address/port_value", port)
}

// renderWasmPlugin returns wasmplugin.yaml with the gateway's limits. Where to listen and where to send is the mesh's.
func (g *gateway) renderWasmPlugin() ([]byte, error) {
	e := editYAML(envoy.WasmPlugin)
	e.set("spec/pluginConfig/pools", g.pools())
	return e.bytes()
}
