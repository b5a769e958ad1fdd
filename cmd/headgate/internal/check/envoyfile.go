package check

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/headgate/headgate/admission/config"
)

// maxFilters is how many filters of Headgate's a file may have.
const maxFilters = 256

// A filter is one of Headgate's filters in a configuration of Envoy.
type filter struct {
	name     string
	entry    *value // with the name and the typed_config
	wasm     *value // the wasm filter's own config
	chain    *value // the http_filters that the filter is one of
	manager  *value // the HTTP connection manager that has the chain
	listener *value
	cluster  *value // the cluster that has the chain
	plugin   *plugin
}

// envoyFile checks a configuration of Envoy: a bootstrap, what xDS serves from a file, or a part of either.
func (r *Report) envoyFile(root *value) {
	var filters []*filter
	all := findWasm(root)
	for _, typed := range all {
		if f := newFilter(typed); f.isHeadgates() {
			filters = append(filters, f)
		}
	}
	r.found += len(filters)
	if len(filters) > maxFilters {
		r.fail(filters[maxFilters].entry.line, "", fmt.Sprintf("has more than %d filters of Headgate's", maxFilters))
		return
	}
	if len(filters) == 0 {
		r.fail(root.line, "", fmt.Sprintf("has no filter of Headgate's: of %d wasm filters none is called headgate, and none"+
			" has pools in its configuration", len(all)))
		return
	}
	for _, f := range filters {
		r.pluginOf(f)
		r.warnOfFilter(f)
	}
	r.warnOfStages(filters, isWholeBootstrap(root))
	r.warnOfEnvoy(root, filters)
	for _, f := range filters {
		if f.plugin != nil {
			r.summarize(f.plugin, fmt.Sprintf("the filter %q in line %d", f.name, f.entry.line))
		}
	}
}

// findWasm returns the typed_config of each HTTP wasm filter.
func findWasm(root *value) (found []*value) {
	root.visit(func(v *value) {
		of := v.member("@type").str()
		if v.typeOf() == "TypedStruct" {
			of = v.field("type_url").str()
		}
		if strings.HasSuffix(of, "filters.http.wasm.v3.Wasm") {
			found = append(found, v)
		}
	})
	return found
}

// newFilter returns the filter that has this typed_config, with what is around it.
func newFilter(typed *value) *filter {
	f := &filter{entry: typed, wasm: typed.field("config")}
	if typed.typeOf() == "TypedStruct" {
		f.wasm = typed.field("value/config")
	}
	if typed.parent != nil {
		f.entry, f.chain = typed.parent, typed.parent.parent
	}
	f.name = f.entry.member("name").str()
	if f.name == "" {
		f.name = f.wasm.field("name").str()
	}
	for v := f.entry; v != nil; v = v.parent {
		switch {
		case f.manager == nil && v.typeOf() == "HttpConnectionManager":
			f.manager = v
		case f.listener == nil && v.field("filter_chains") != nil:
			f.listener = v
		case f.cluster == nil && v.field("typed_extension_protocol_options") != nil:
			f.cluster = v
		}
	}
	return f
}

// isHeadgates reports whether a wasm filter is Headgate: one of its names says so, or it has a configuration like ours.
func (f *filter) isHeadgates() bool {
	code := f.wasm.field("vm_config/code")
	if mentions(f.entry.member("name"), f.wasm.field("name"), f.wasm.field("root_id"), f.wasm.field("vm_config/vm_id"),
		code.field("local/filename"), code.field("remote/http_uri/uri")) {
		return true
	}
	holder := f.wasm.field("configuration/value")
	return holder.member("pools") != nil || strings.Contains(holder.str(), `"pools"`)
}

// pluginOf checks the plugin configuration of a filter.
func (r *Report) pluginOf(f *filter) {
	r.found--
	holder := f.wasm.field("configuration/value")
	switch f.wasm.field("configuration").typeOf() {
	case "Struct":
		if holder != nil {
			f.plugin = r.plugin(document{root: holder})
			return
		}
	case "StringValue":
		if holder != nil && holder.kind == kindText {
			f.plugin = r.pluginText(holder)
			return
		}
	case "BytesValue":
		if text, err := base64.StdEncoding.DecodeString(holder.str()); err == nil && holder != nil {
			f.plugin = r.pluginText(&value{content: content{kind: kindText, text: string(text)}, line: holder.line})
			return
		}
	}
	r.found++
	r.fail(f.wasm.lineOr(f.entry.line), "", fmt.Sprintf("the filter %q has no plugin configuration (want configuration: "+
		`{"@type": type.googleapis.com/google.protobuf.StringValue, value: TEXT})`, f.name))
}

// config returns the filter's plugin configuration, or nil if it has errors.
func (f *filter) config() *config.Config {
	if f.plugin == nil || f.plugin.broken {
		return nil
	}
	return f.plugin.config
}

// stage returns the filter's stage. ok is false if its plugin configuration has errors.
func (f *filter) stage() (stage config.Stage, ok bool) {
	c := f.config()
	if c == nil {
		return 0, false
	}
	return c.Stage, true
}

// is reports whether the filter runs in that stage.
func (f *filter) is(stage config.Stage) bool {
	s, ok := f.stage()
	return ok && s == stage
}

// isWholeBootstrap reports whether a file has all listeners and clusters of an Envoy.
func isWholeBootstrap(root *value) bool {
	return root.field("dynamic_resources") == nil && len(root.field("static_resources/listeners").items()) > 0 &&
		len(root.field("static_resources/clusters").items()) > 0
}

// warnOfFilter warns of how one filter is loaded.
func (r *Report) warnOfFilter(f *filter) {
	line := f.wasm.lineOr(f.entry.line)
	policy, open := f.wasm.field("failure_policy"), f.wasm.field("fail_open")
	strategy := policy.str()
	if open.isTrue() {
		policy, strategy = open, "FAIL_OPEN"
	}
	if strategy != "FAIL_RELOAD" {
		r.warn("no-fail-reload", policy.lineOr(line), "", "the filter %q has no failure_policy: FAIL_RELOAD: %s", f.name,
			whatFails(strategy))
	}
	if f.config() == nil {
		return
	}
	allow := f.wasm.field("allow_on_headers_stop_iteration")
	switch {
	case allow.isTrue():
	case f.is(config.StageAdmin):
		r.warn("no-stop-iteration", allow.lineOr(line), "", "the filter %q reads the body of a change, which needs "+
			"allow_on_headers_stop_iteration: true: without it no limit can be changed", f.name)
	case f.plugin.bodySource() != nil && !f.is(config.StageAttempt):
		r.warn("no-stop-iteration", allow.lineOr(line), "", "the filter %q reads the model from the body, which needs "+
			"allow_on_headers_stop_iteration: true: without it the model is unknown", f.name)
	}
	r.warnOfOrder(f)
}

// authenticating are the filters that say who a client is, by the last part of their type.
var authenticating = []string{
	"JwtAuthentication", "ExtAuthz", "OAuth2", "BasicAuth", "ApiKeyAuth", "CredentialInjector", "RBAC",
}

// warnOfOrder warns of where in its chain a filter stands.
func (r *Report) warnOfOrder(f *filter) {
	at := slices.Index(f.chain.items(), f.entry)
	if at < 0 {
		return
	}
	for i, other := range f.chain.items() {
		of := other.field("typed_config").typeOf()
		switch {
		case i < at && (of == "Router" || of == "UpstreamCodec"):
			r.warn("behind-the-end", f.entry.line, "", "the filter %q stands behind %q, which ends the chain: nothing "+
				"reaches it, and what is sent again passes it (put it before)", f.name, other.member("name").str())
		case i > at && slices.Contains(authenticating, of):
			r.warn("before-authentication", other.line, "", "%q stands behind %q: requests that it refuses have taken permits, "+
				"and the tenant is not known yet (put it before)", other.member("name").str(), f.name)
		}
	}
	if at == 0 && !f.is(config.StageAdmin) && f.listener != nil && !isLoopback(f.listener.field("address")) {
		r.warnOfTrust(f)
	}
}

// warnOfTrust warns of trusted headers where nothing before Headgate can have overwritten them.
func (r *Report) warnOfTrust(f *filter) {
	for _, dimension := range []string{"tenant", "class"} {
		for i, source := range f.plugin.root.member("identity").member(dimension).items() {
			if trusted := source.member("trusted"); trusted.isTrue() {
				r.warn("client-names-tenant", trusted.line, fmt.Sprintf("identity.%s[%d]", dimension, i),
					"the listener is open to other machines and no filter stands before %q: is it sure that no client can send "+
						"this?", f.name)
			}
		}
	}
}
