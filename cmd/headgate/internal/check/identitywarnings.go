package check

import (
	"fmt"
	"strings"

	"github.com/headgate/headgate/admission/config"
)

// sourced are the dimensions that have sources.
var sourced = [...]config.Dimension{config.DimensionTenant, config.DimensionModel, config.DimensionClass}

// sourcesOf returns the sources of a dimension.
func (p *plugin) sourcesOf(d config.Dimension) []config.Source {
	switch d {
	case config.DimensionTenant:
		return p.config.Identity.Tenant
	case config.DimensionModel:
		return p.config.Identity.Model
	}
	return p.config.Identity.Class
}

// warnOfSources warns of sources that never have a value, and of those that are never asked.
func (r *Report) warnOfSources(p *plugin) {
	for _, d := range sourced {
		name, sources := dimensions[d], p.sourcesOf(d)
		trees := p.root.member("identity").member(name).items()
		for i, s := range sources {
			if i >= len(trees) || !inFile(trees[i]) {
				continue
			}
			field := fmt.Sprintf("identity.%s[%d]", name, i)
			if s.Kind == config.SourceJSONBody && strings.ContainsAny(s.Name, "$./[") {
				at := trees[i].member("json_body")
				r.warn("body-path", at.lineOr(trees[i].line), field+".json_body",
					"%q is taken as the name of a key of the body's object, and not as a path (want e.g. \"model\")", s.Name)
			}
			if s.Kind == config.SourceValue && i+1 < len(sources) {
				r.warn("source-never-asked", trees[i+1].line, fmt.Sprintf("identity.%s[%d]", name, i+1),
					"%s before it always has a value, so this source is never asked", field)
				break
			}
		}
	}
}

// bodySource returns the source that reads the model from the body, or nil.
func (p *plugin) bodySource() *value {
	for _, source := range p.root.member("identity").member("model").items() {
		if body := source.member("json_body"); inFile(body) {
			return body
		}
	}
	return nil
}

// unitOfHeaders are headers in which clients send their timeouts in seconds.
var unitOfHeaders = map[string]string{
	"x-stainless-read-timeout": "the SDKs of OpenAI and Anthropic send it in seconds",
	"x-stainless-timeout":      "the SDKs of OpenAI and Anthropic send it in seconds",
	"x-server-timeout":         "Google's SDK sends it in seconds",
}

// warnOfDeadlines warns of headers that are read in another unit than they have.
func (r *Report) warnOfDeadlines(p *plugin) {
	for i, h := range p.root.member("deadline").member("headers").items() {
		name := strings.ToLower(h.str())
		if h.kind == kindMap {
			if unit := h.member("unit"); unit != nil && unit.str() != "ms" {
				continue
			}
			name = strings.ToLower(h.member("header").str())
		}
		why := unitOfHeaders[name]
		for _, end := range []string{"-s", "-sec", "-secs", "-seconds"} {
			if why == "" && strings.HasSuffix(name, end) {
				why = "its name says seconds"
			}
		}
		if why != "" && h.isWhole() {
			r.warn("deadline-unit", h.line, fmt.Sprintf("deadline.headers[%d]", i),
				"a plain number in %q is read as milliseconds, but %s: requests would expire a thousand times too early",
				name, why)
		}
	}
}
