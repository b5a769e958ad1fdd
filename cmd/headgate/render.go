package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/headgate/headgate/envoy"
)

var (
	errNoUpstream = errors.New("--upstream is missing: where is the model API? e.g. --upstream https://api.example.com")
	errNoTarget   = errors.New("render what? want `headgate render envoy` or `headgate render istio`")
)

func renderCommand(term terminal) *cobra.Command {
	c, flags, g := newRender()
	c.RunE = func(_ *cobra.Command, args []string) error {
		if g.version {
			return printVersion(term)
		}
		render := map[string]func() ([]byte, error){"envoy": g.renderBootstrap, "istio": g.renderWasmPlugin}[target(args)]
		if render == nil {
			return usageError{errNoTarget}
		}
		if err := g.resolveConflicts(flags); err != nil {
			return usageError{err}
		}
		warnings := newNotes(term.err)
		warnOfRepeated(warnings, flags)
		if target(args) == "istio" {
			warnOfIgnoredByIstio(warnings, flags)
		} else {
			g.warnOfIgnored(warnings, flags)
		}
		text, err := render()
		if err != nil {
			return err
		}
		_, err = term.out.Write(text)
		return err
	}
	return c
}

// newRender makes the command render without its action, its flags, and the gateway that they describe.
func newRender() (*cobra.Command, *flagSet, *gateway) {
	c := &cobra.Command{
		Use:       "render envoy|istio [FLAGS]",
		Short:     "Print the configuration that run would use.",
		Example:   renderExamples,
		ValidArgs: []string{"envoy", "istio"},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 1 && target(args) == "" {
				return usageError{errNoTarget}
			}
			return nil
		},
	}
	g := defaultGateway()
	flags := newFlagSet(c)
	g.addFlags(flags)
	return c, flags, &g
}

const renderExamples = `  # An Envoy bootstrap.
  headgate render envoy --upstream https://api.example.com --concurrency 4 >envoy.yaml

  # The same around a plugin configuration of your own.
  headgate render envoy --upstream https://api.example.com --config plugin.json >envoy.yaml

  # A WasmPlugin with the same limits, for a gateway of Istio's.
  headgate render istio --limit 'POST /chat/completions:8' >wasmplugin.yaml`

// target is what to render: envoy, istio, or nothing that is known.
func target(args []string) string {
	if len(args) == 1 && (args[0] == "envoy" || args[0] == "istio") {
		return args[0]
	}
	return ""
}

// The parts of envoy.yaml that the flags decide.
const (
	listenerPath   = "static_resources/listeners/0/"
	connectionPath = listenerPath + "filter_chains/0/filters/0/typed_config/"
	filterPath     = connectionPath + "http_filters/0/typed_config/config/"
	grpcRoutePath  = routesPath + "0/route/"
	routePath      = retriedRoute + "/route/"
	otherRoutePath = routesPath + "2/route/" // for requests that are never retried

	// Both clusters lead to the upstream. The second one is for gRPC.
	clusterPath     = "static_resources/clusters/0/"
	grpcClusterPath = "static_resources/clusters/1/"

	// The parts of a cluster. The first of the filters, which each try passes, is Headgate's second filter.
	protocolOptions = "typed_extension_protocol_options/envoy.extensions.upstreams.http.v3.HttpProtocolOptions/"
	clusterFilters  = protocolOptions + "http_filters"
	clusterFilter   = clusterFilters + "/0/typed_config/config/"
	clusterEndpoint = "load_assignment/endpoints/0/lb_endpoints/0/endpoint/"

	upstreamFilters = clusterPath + clusterFilters
	tryPath         = clusterPath + clusterFilter
	grpcTryPath     = grpcClusterPath + clusterFilter
	endpointPath    = clusterPath + clusterEndpoint
)

// clusterPaths are the paths of both clusters.
var clusterPaths = []string{clusterPath, grpcClusterPath}

// renderBootstrap returns envoy.yaml with the gateway's values.
func (g *gateway) renderBootstrap() ([]byte, error) {
	if g.upstream == nil {
		return nil, usageError{errNoUpstream}
	}
	wasm, err := filepath.Abs(g.wasm)
	if err != nil {
		return nil, err
	}
	e := editYAML(envoy.Bootstrap)
	governs, err := g.governing(e.text(filterPath + "configuration/value"))
	if err != nil {
		return nil, errors.Join(e.err, err)
	}
	e.setTopComment(g.topComment())
	for stage, filters := range g.stages() {
		text, err := governs.textFor(stage)
		if err != nil {
			return nil, err
		}
		for _, filter := range filters {
			e.set(filter+"configuration/value", text)
			e.set(filter+"vm_config/code/local/filename", wasm)
		}
	}
	e.setAddress(listenerPath, g.bind.Addr().String(), g.bind.Port())
	// Nothing moves while a request waits in Headgate's queues, either.
	e.set(connectionPath+"stream_idle_timeout", envoySeconds(governs.longestWait+g.idleTimeout))
	if g.disableKeepAlives {
		for _, cluster := range clusterPaths {
			e.set(cluster+protocolOptions+"common_http_protocol_options/max_requests_per_connection", 1)
		}
	}
	// setClusters edits the retried route. It goes before editBootstrap, which makes copies of that route.
	if err := g.upstream.setClusters(e); err != nil {
		return nil, err
	}
	g.retries.editBootstrap(e, governs.routes)
	if g.logAccess {
		e.set(connectionPath+"access_log", accessLog())
	}
	g.setAdmin(e)
	allowOrigins(e, g.origins) // last: it moves Headgate's filter
	return e.bytes()
}

// renderedStages are the stages with the paths of their filters in a rendered bootstrap.
func (g *gateway) renderedStages() map[string][]string {
	stages := g.stages()
	for _, paths := range stages {
		if len(g.origins) > 0 && paths[0] == filterPath {
			paths[0] = strings.Replace(filterPath, "http_filters/0", "http_filters/1", 1)
		}
	}
	return stages
}

// stages are the stages that the plugin runs in, each with the paths of its filters in envoy.yaml. The stage attempt
// exists only with retries.
func (g *gateway) stages() map[string][]string {
	stages := map[string][]string{"invocation": {filterPath}, "attempt": {tryPath, grpcTryPath}}
	if !g.retries.enabled() {
		stages = map[string][]string{"request": {filterPath}}
	}
	if g.admin.isOn() {
		stages["admin"] = []string{adminFilterPath}
	}
	return stages
}

// topComment is the comment at the top of a rendered bootstrap.
func (g *gateway) topComment() string {
	return fmt.Sprintf("A gateway to %s, governed by Headgate: a static bootstrap for Envoy 1.33 and newer, "+
		"as headgate rendered it.\nStart it with: envoy --disable-hot-restart --concurrency %d -c FILE",
		g.upstream, g.workers)
}

// envoySeconds is a duration in the form that Envoy reads, rounded up to whole seconds.
func envoySeconds(d time.Duration) string {
	return fmt.Sprintf("%ds", (d+time.Second-1)/time.Second)
}

// envoyDuration is a duration in the form that Envoy reads: seconds with a fraction.
func envoyDuration(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s"
}

func (e *yamlEdit) setAddress(path, host string, port uint16) {
	e.set(path+"address/socket_address/address", host)
	e.set(path+"address/socket_address/port_value", port)
}

// renderWasmPlugin returns wasmplugin.yaml with the gateway's limits. The mesh decides where to listen and where to
// send.
func (g *gateway) renderWasmPlugin() ([]byte, error) {
	e := editYAML(envoy.WasmPlugin)
	g.retries.count = 0 // in Istio a VirtualService retries, and the plugin sees all tries as one request
	template := editYAML(envoy.Bootstrap).text(filterPath + "configuration/value")
	if g.configPath != "" {
		return g.renderFileForIstio(e, template)
	}
	plugin, err := g.plugin(template)
	if err != nil {
		return nil, err
	}
	const config = "spec/pluginConfig/"
	if g.mode != "" {
		e.set(config+"mode", g.mode)
	}
	e.set(config+"routes", plugin.Routes)
	e.set(config+"pools", plugin.Pools)
	return e.bytes()
}

// renderFileForIstio is renderWasmPlugin with the plugin configuration of --config.
func (g *gateway) renderFileForIstio(e *yamlEdit, template string) ([]byte, error) {
	governs, err := g.governing(template)
	if err != nil {
		return nil, err
	}
	text, err := governs.textFor("request")
	if err != nil {
		return nil, err
	}
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		return nil, err
	}
	inBlocks(&document)
	e.set("spec/pluginConfig", document.Content[0])
	return e.bytes()
}

// inBlocks has a value that came from JSON written as YAML usually is, in lines without braces.
func inBlocks(node *yaml.Node) {
	node.Style = 0
	for _, n := range node.Content {
		inBlocks(n)
	}
}
