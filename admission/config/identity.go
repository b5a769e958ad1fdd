package config

import (
	"github.com/headgate/headgate/admission/internal/text"
)

var identityRules = []rule{
	{name: "tenant", form: formArray, most: maxSources, each: &sourceRule},
	{name: "model", form: formArray, most: maxSources, each: &sourceRule},
	{name: "class", form: formArray, most: maxSources, each: &sourceRule},
	{name: "aliases", form: formMap, each: &textRule, then: (*Config).parseAliases},
}

// The fields of a source.
const (
	sourceHeader = iota
	sourceHeaderTrusted
	sourceMetadata
	sourcePeerCertificate
	sourceFilterState
	sourceJSONBody
	sourceMaxBytes
	sourcePath
	sourcePathTrusted
	sourceCluster
	sourceValue
)

// sourceKinds has the kinds whose field is there to say so; what only comes with another field is no kind.
var sourceKinds = [...]struct {
	field int
	kind  SourceKind
}{
	{sourceHeader, SourceHeader}, {sourceMetadata, SourceMetadata}, {sourcePeerCertificate, SourcePeerCertificate},
	{sourceFilterState, SourceFilterState}, {sourceJSONBody, SourceJSONBody}, {sourcePath, SourcePath},
	{sourceCluster, SourceCluster}, {sourceValue, SourceValue},
}

var sourceRule = rule{form: formObject, fields: sourceRules, then: (*Config).parseSource}

var sourceRules = []rule{
	sourceHeader:          {name: "header", form: formHeader, then: (*Config).checkSource},
	sourceHeaderTrusted:   {name: "trusted", when: "header"},
	sourceMetadata:        {name: "metadata", form: formArray, least: 1, most: 1 + maxMetadata, each: &textRule, then: (*Config).checkSource},
	sourcePeerCertificate: {name: "peer_certificate", form: formChoice, words: []string{"uri_san", "dns_san", "subject"}},
	sourceFilterState:     {name: "filter_state", form: formText},
	sourceJSONBody:        {name: "json_body", form: formText, when: "model"},
	sourceMaxBytes:        {name: "max_bytes", form: formInteger, when: "json_body", least: 1, most: maxBodyBytes, absent: 65536},
	sourcePath:            {name: "path", then: (*Config).checkSource},
	sourcePathTrusted:     {name: "trusted", when: "path"},
	sourceCluster:         {name: "cluster", form: formBoolean, then: (*Config).checkSource},
	sourceValue:           {name: "value", form: formText},
}

var (
	trustedRule = rule{form: formBoolean}
	pathRule    = rule{form: formText, then: (*Config).checkPath}
)

// dimensionOf is the name of the dimension that a field of a source, n, is for.
//
//go:noinline
func dimensionOf(n *node) string { return n.up.up.name }

// cutTemplate is what surrounds the placeholder in a path template.
func cutTemplate(n *node) (prefix, placeholder, suffix string, found bool) {
	placeholder = "{" + dimensionOf(n) + "}"
	prefix, suffix, found = text.Cut(n.text, placeholder)
	return prefix, placeholder, suffix, found
}

// checkSource looks further at a field of a source.
func (c *Config) checkSource(n *node) *Error {
	if n.name == "header" || n.name == "path" {
		// What clients choose is no tenant or class, unless the operator vouches for it.
		trusted := n.up.member("trusted")
		if trusted != nil {
			if err := c.check(trusted, &trustedRule, 0, 0); err != nil {
				return err
			}
		}
		if dimensionOf(n) != "model" && (trusted == nil || trusted.number == 0) {
			return n.refuse(`needs "trusted": true beside it, the operator's word that no client can choose it`)
		}
	}
	switch n.name {
	case "path":
		return c.check(n, &pathRule, 0, 0)
	case "metadata":
		if n.count() == 1 {
			return n.fail("has 1 element (want a namespace and at least one key)")
		}
	case "cluster":
		if n.number == 0 {
			return n.refuse("means nothing (want true, or no such source)")
		}
	}
	return nil
}

// checkPath looks further at the text of a path template.
func (*Config) checkPath(n *node) *Error {
	prefix, placeholder, suffix, found := cutTemplate(n)
	around := prefix + suffix
	for i := range len(around) {
		if text.IndexByte("{}*", around[i]) >= 0 {
			found = false
		}
	}
	if !found {
		example := placeholder + `, e.g. "/deployments/` + placeholder
		return n.refuse("is not a path template (want exactly one " + example + `/")`)
	}
	if _, problem := cutPattern(prefix + "x" + text.WithoutSlashAtEnd(suffix)); problem != "" {
		return n.refuse(problem)
	}
	return nil
}

// parseSource stores a source, which has the field of exactly one kind.
func (c *Config) parseSource(n *node) *Error {
	s := Source{MaxBytes: int(n.fields[sourceMaxBytes].number)}
	var found *node
	kinds, count := "", 0
	for i := range sourceKinds {
		k := &sourceKinds[i]
		if f := n.fields[k.field].node; f != nil {
			kinds = listed(kinds, f.name)
			count++
			s.Kind, found = k.kind, f
		}
	}
	if count == 0 {
		return n.fail("names no kind of source (want exactly one)")
	}
	if count > 1 {
		return n.fail("names several kinds of source: " + kinds + " (want exactly one)")
	}
	switch s.Kind {
	case SourceHeader:
		s.Name = text.OtherCase(found.text, 'A')
	case SourceMetadata:
		s.Path = found.texts()
	case SourcePath:
		s.Prefix, _, s.Suffix, _ = cutTemplate(found)
	case SourceCluster:
	default:
		s.Name = found.text
	}
	list := &c.Identity.Class
	switch dimensionOf(found) {
	case "tenant":
		list = &c.Identity.Tenant
	case "model":
		list = &c.Identity.Model
	}
	*list = append(*list, s)
	return nil
}

// parseAliases stores model names and what they count as. One step only: a target that is an alias itself is refused.
func (c *Config) parseAliases(n *node) *Error {
	aliases := map[string]string{}
	for e := n.kids; e != nil; e = e.next {
		aliases[e.name] = e.text
	}
	for e := n.kids; e != nil; e = e.next {
		if aliases[e.text] != "" {
			return e.refuse("is an alias itself (want the name that counts in the end)")
		}
	}
	c.Identity.Aliases = aliases
	return nil
}
