package check

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/config"
)

// wanted says what a file can be.
const wanted = "want a plugin configuration, a WasmPlugin, an EnvoyExtensionPolicy or Envoy's configuration"

// File checks the text of a file. The file's name says whether a text that begins with a bracket must be JSON.
func File(name string, text []byte) *Report {
	r := &Report{Name: name}
	if len(text) > MaxBytes {
		r.fail(1, "", fmt.Sprintf("is longer than %d bytes", MaxBytes))
		return r
	}
	documents, f := readFile(name, string(text))
	for _, d := range documents {
		if r.errors <= maxProblems { // one more says that there may be others
			r.document(d)
		}
	}
	if f != nil {
		r.fail(f.line, "", f.text)
	} else if r.found == 0 && len(r.Problems) == 0 {
		r.fail(1, "", "holds no configuration of Headgate ("+wanted+")")
	}
	r.sort()
	return r
}

// A document is one document of a file.
type document struct {
	root  *value
	text  string // what root was read from, if that is JSON
	lines lines  // of text
}

// empty is the fault of a file without a document.
const empty = "is empty (" + wanted + ")"

// readFile reads the documents of a file. With a fault it still returns the documents before it.
func readFile(name, text string) ([]document, *fault) {
	begins := strings.TrimLeft(text, " \t\r\n")
	if begins == "" {
		return nil, &fault{1, empty}
	}
	isYAML := path.Ext(name) == ".yaml" || path.Ext(name) == ".yml"
	if begins[0] == '{' || begins[0] == '[' || path.Ext(name) == ".json" {
		l := linesOf(text, 1)
		root, f := readJSON(text, l)
		if f == nil {
			return []document{{root, text, l}}, nil
		}
		if !isYAML {
			return nil, f
		}
	}
	roots, f := readYAML(text)
	if f == nil && len(roots) == 0 {
		f = &fault{1, empty}
	}
	var documents []document
	for _, root := range roots {
		documents = append(documents, document{root: root})
	}
	return documents, f
}

// document checks one document of a file. Documents of Kubernetes that are about something else are passed over.
func (r *Report) document(d document) {
	root := d.root
	switch {
	case root.member("kind").str() != "":
		r.kubernetes(root)
	case isEnvoys(root):
		r.envoyFile(root)
	case root.kind == kindMap:
		p := r.plugin(d)
		r.warnOfNothing(p)
		r.summarize(p, pluginConfiguration)
	default:
		r.fail(root.line, "", "is not a configuration ("+wanted+")")
	}
}

// envoysFields are fields of Envoy's own files: of a bootstrap, of what xDS serves from a file, of a part of either.
var envoysFields = []string{
	"static_resources", "dynamic_resources", "layered_runtime", "overload_manager", "node", "resources", "listeners",
	"clusters", "filter_chains", "http_filters", "configs", "@type", "typed_config",
}

// isEnvoys reports whether a document is Envoy's own configuration.
func isEnvoys(root *value) bool {
	if root.member("pools") != nil {
		return false
	}
	for _, name := range envoysFields {
		if root.field(name) != nil {
			return true
		}
	}
	return false
}

// A plugin is one plugin configuration of a file.
type plugin struct {
	root   *value
	config *config.Config // nil: it has errors that leave nothing to warn of
	broken bool           // it has errors
	pools  []pool         // of the file
	asked  []pool         // that the stage asks, with those that are made of routes with limits

	tryWait admission.Duration // how long each try of a request can wait in a filter of stage attempt behind this one
}

// plugin reports what is wrong with a plugin configuration, and what it warns of.
func (r *Report) plugin(d document) *plugin {
	r.found++
	before := len(r.Problems)
	p := &plugin{root: d.root}
	p.config = r.collect(d.root)
	if refused := refusedText(d.text); refused != nil && !r.tells(refused.Problem, before) {
		r.fail(d.lines.at(refused.At), "", refused.Problem)
	}
	p.broken = len(r.Problems) > before
	if p.config != nil {
		p.listPools()
		r.warnOf(p)
	}
	return p
}

// pluginText is plugin for a configuration that is JSON text in a value of the file.
func (r *Report) pluginText(holder *value) *plugin {
	l := linesIn(holder)
	root, f := readJSON(holder.text, l)
	if f != nil {
		r.found++
		r.fail(f.line, "", "the plugin configuration: "+f.text)
		return &plugin{broken: true}
	}
	return r.plugin(document{root, holder.text, l})
}

// refusedText returns why package config refuses a text as such: it is too long, or not JSON as strict as it wants.
func refusedText(text string) *config.Error {
	if text == "" {
		return nil // it was written as YAML
	}
	_, err := config.Parse([]byte(text))
	refused, _ := err.(*config.Error) //nolint:errorlint // Parse returns it as it is
	if refused != nil && (isSyntax(refused) || strings.HasPrefix(refused.Problem, "is longer ")) {
		return refused
	}
	return nil
}

// tells reports whether one of the problems from an index on says this.
func (r *Report) tells(problem string, from int) bool {
	for _, p := range r.Problems[from:] {
		if strings.Contains(p.Text, problem) {
			return true
		}
	}
	return false
}

// YAMLAsJSON returns the one document of a YAML text as JSON.
func YAMLAsJSON(text []byte) ([]byte, error) {
	documents, f := readFile(".yaml", string(text))
	switch {
	case f != nil && f.text != empty:
		return nil, fmt.Errorf("line %d: %s", f.line, f.text)
	case len(documents) != 1 || documents[0].root.kind != kindMap:
		return nil, errors.New("is no plugin configuration: want a JSON object or a YAML map")
	}
	return encode(documents[0].root).bytes, nil
}
