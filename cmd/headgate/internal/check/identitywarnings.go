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

// inSeconds are headers in which clients send their timeouts in seconds.
var inSeconds = map[string]string{
	"x-stainless-read-timeout": "the SDKs of OpenAI and Anthropic send seconds",
	"x-stainless-timeout":      "the SDKs of OpenAI and Anthropic send seconds",
	"x-server-timeout":         "Google's SDK sends seconds",
}

// warnOfDeadlines warns of headers that are read in another unit than they have.
func (r *Report) warnOfDeadlines(p *plugin) {
	trees := p.root.member("deadline").member("headers").items()
	for i, h := range p.config.Deadline.Headers {
		if i >= len(trees) || !inFile(trees[i]) {
			continue
		}
		read, other, when := "milliseconds", "s", "early"
		if h.Seconds {
			read, other, when = "seconds", "ms", "late"
		}
		if why := unlike(h.Name, h.Seconds); why != "" {
			field := fmt.Sprintf("deadline.headers[%d]", i)
			r.warn("deadline-unit", trees[i].line, field, "a plain number in %q is read as %s, but %s: requests would expire a "+
				`thousand times too %s (want {"header": %q, "unit": %q})`, h.Name, read, why, when, h.Name, other)
		}
	}
}

// unlike says why a header, whose name is in lower case, is not in the unit that it is read in. "" is none.
func unlike(header string, seconds bool) (why string) {
	if seconds {
		if strings.HasSuffix(header, "-ms") || strings.HasSuffix(header, "-milliseconds") {
			return "its name says milliseconds"
		}
		return ""
	}
	for _, end := range []string{"-s", "-sec", "-secs", "-seconds"} {
		if strings.HasSuffix(header, end) {
			return "its name says seconds"
		}
	}
	return inSeconds[header]
}
