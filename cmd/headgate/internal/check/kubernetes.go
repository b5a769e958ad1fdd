package check

import "strings"

// kubernetes checks a resource of Kubernetes. Resources that have nothing to do with Headgate are passed over.
func (r *Report) kubernetes(root *value) {
	switch root.member("kind").str() {
	case "List":
		for _, item := range root.member("items").items() {
			r.document(document{root: item})
		}
	case "WasmPlugin":
		r.wasmPlugin(root)
	case "EnvoyExtensionPolicy":
		for _, wasm := range root.field("spec/wasm").items() {
			r.extensionPolicy(wasm)
		}
	case "ConfigMap":
		for _, file := range root.member("data").members() {
			r.file(file)
		}
	default: // an EnvoyFilter, an EnvoyPatchPolicy
		if len(findWasm(root)) > 0 {
			r.envoyFile(root)
		}
	}
}

// wasmPlugin checks Istio's resource.
func (r *Report) wasmPlugin(root *value) {
	spec := root.member("spec")
	config := spec.member("pluginConfig")
	named := mentions(root.field("metadata/name"), spec.member("url"), spec.member("pluginName"))
	if config.member("pools") == nil && !named {
		return // another plugin
	}
	if config == nil {
		r.fail(spec.lineOr(root.line), "", "spec has no pluginConfig, which is where the plugin configuration stands")
		return
	}
	p := r.plugin(document{root: config})
	if strategy := spec.member("failStrategy"); strategy.str() != "FAIL_RELOAD" {
		r.warn("no-fail-reload", strategy.lineOr(spec.line), "", "failStrategy is not FAIL_RELOAD: %s",
			whatFails(strategy.str()))
	}
	if phase := spec.member("phase"); phase.str() == "AUTHN" {
		r.warn("before-authentication", phase.line, "", "phase AUTHN puts Headgate before authentication: it sees no "+
			"tenant yet, and requests that are refused later take permits (want phase: STATS)")
	}
	r.onlyFilter(p, "a WasmPlugin")
	r.summarize(p, "a WasmPlugin")
}

// extensionPolicy checks one wasm extension of Envoy Gateway's resource.
func (r *Report) extensionPolicy(wasm *value) {
	config := wasm.member("config")
	code := wasm.member("code")
	named := mentions(wasm.member("name"), wasm.member("rootID"), code.field("image/url"), code.field("http/url"))
	if config.member("pools") == nil && !named {
		return // another plugin
	}
	if config == nil {
		r.fail(wasm.line, "", "the wasm extension has no config, which is where the plugin configuration stands")
		return
	}
	p := r.plugin(document{root: config})
	if open := wasm.member("failOpen"); open.isTrue() {
		r.warn("no-fail-reload", open.line, "", "failOpen: true lifts every limit while Headgate's VM is down")
	}
	r.onlyFilter(p, "an EnvoyExtensionPolicy")
	r.summarize(p, "an EnvoyExtensionPolicy")
}

// onlyFilter warns of what can't work in a resource that loads Headgate in one place and says nothing of the rest.
func (r *Report) onlyFilter(p *plugin, resource string) {
	if p.config == nil {
		return
	}
	if source := p.bodySource(); source != nil {
		r.warn("no-stop-iteration", source.line, "", "the model is read from the body, but %s can't set "+
			"allow_on_headers_stop_iteration: the model will be unknown", resource)
	}
	if stage := p.root.member("stage"); stage.isWhole() && (stage.str() == "invocation" || stage.str() == "attempt") {
		asks := "asks only some of the pools"
		if p.limitsNothing() {
			asks = "asks none of the pools, so nothing is limited"
		}
		r.warn("pool-never-asked", stage.line, "stage", "%s loads one filter, and stage %s %s (want stage: request)",
			resource, stage.str(), asks)
	}
}

// file checks a file that is the text of a value.
func (r *Report) file(holder *value) {
	if !strings.Contains(holder.str(), "headgate") && !strings.Contains(holder.str(), "pools") {
		return // a file of something else
	}
	documents, f := readFile(holder.key, holder.text)
	l := linesIn(holder)
	line := func(inner int) int {
		if holder.block {
			return l.first + inner - 1
		}
		return l.first
	}
	for _, d := range documents {
		d.root.visit(func(v *value) { v.line = line(v.line) })
		d.lines = l
		if d.root.kind >= kindList {
			r.document(d)
		}
	}
	if f != nil {
		r.fail(line(f.line), "", f.text)
	}
}

// mentions reports whether one of the texts is about Headgate.
func mentions(texts ...*value) bool {
	for _, t := range texts {
		if strings.Contains(strings.ToLower(t.str()), "headgate") {
			return true
		}
	}
	return false
}

// whatFails says what happens when a VM traps, if it is not replaced.
func whatFails(strategy string) string {
	if strings.HasPrefix(strategy, "FAIL_OPEN") {
		return "it lifts every limit while a VM is down"
	}
	return "a worker whose VM trapped answers 503 until Envoy restarts"
}
