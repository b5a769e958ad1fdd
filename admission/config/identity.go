package config

import "github.com/headgate/headgate/admission/internal/text"

var identityRules = []rule{
	{name: "tenant", form: formArray, most: maxSources, each: &sourceRule},
	{name: "model", form: formArray, most: maxSources, each: &sourceRule},
	{name: "class", form: formArray, most: maxSources, each: &sourceRule},
	{name: "aliases", form: formMap, each: &textRule, then: (*Config).parseAliases},
}

// The fields of a source, in the order of sourceRules.
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

// sourceKinds has the field that makes a source one of each kind. The other fields only stand beside one of these.
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
	sourceHeader:        {name: "header", form: formHeader, then: (*Config).checkSource},
	sourceHeaderTrusted: {name: "trusted", onlyWith: "header"},
	sourceMetadata: {name: "metadata", form: formArray, least: 1, most: 1 + maxMetadata, each: &textRule,
		then: (*Config).checkSource},
	sourcePeerCertificate: {name: "peer_certificate", form: formChoice, words: []string{"uri_san", "dns_san", "subject"}},
	sourceFilterState:     {name: "filter_state", form: formText},
	sourceJSONBody:        {name: "json_body", form: formText, onlyWith: "model"},
	sourceMaxBytes: {name: "max_bytes", form: formInteger, onlyWith: "json_body", least: 1, most: maxBodyBytes,
		absent: 65536},
	sourcePath:        {name: "path", then: (*Config).checkSource},
	sourcePathTrusted: {name: "trusted", onlyWith: "path"},
	sourceCluster:     {name: "cluster", form: formBoolean, then: (*Config).checkSource},
	sourceValue:       {name: "value", form: formText},
}

var (
	trustedRule = rule{form: formBoolean}
	pathRule    = rule{form: formText, then: (*Config).checkPath}
)

// dimensionOf returns the name of the dimension that a source is for. n is a field of the source.
func dimensionOf(n *node) string { return n.parent.parent.name }

// cutTemplate returns the placeholder of a path template, and what stands before and behind it.
func cutTemplate(n *node) (prefix, placeholder, suffix string, found bool) {
	placeholder = "{" + dimensionOf(n) + "}"
	prefix, suffix, found = text.Cut(n.text, placeholder)
	return prefix, placeholder, suffix, found
}

// checkSource checks what the rule of a source's field can't say.
func (c *Config) checkSource(n *node) *Error {
	if n.name == "header" || n.name == "path" {
		// A client could choose its own tenant or class in a header or path, unless the operator says that none can.
		trusted := n.parent.member("trusted")
		if trusted != nil {
			if err := c.check(trusted, &trustedRule, 0, 0); err != nil {
				return err
			}
		}
		if dimensionOf(n) != "model" && (trusted == nil || trusted.number == 0) {
			return n.refuseValue(`needs "trusted": true beside it, the operator's word that no client can choose it`)
		}
	}
	switch n.name {
	case "path":
		return c.check(n, &pathRule, 0, 0)
	case "metadata":
		if n.count() == 1 {
			return n.refuse("has 1 element (want a namespace and at least one key)")
		}
	case "cluster":
		if n.number == 0 {
			return n.refuseValue("means nothing (want true, or no such source)")
		}
	}
	return nil
}

// checkPath checks what the rule of a path template can't say.
func (*Config) checkPath(n *node) *Error {
	prefix, placeholder, suffix, valid := cutTemplate(n)
	around := prefix + suffix
	for i := range len(around) {
		if text.IndexByte("{}*", around[i]) >= 0 {
			valid = false
		}
	}
	if !valid {
		example := placeholder + `, e.g. "/deployments/` + placeholder
		return n.refuseValue("is not a path template (want exactly one " + example + `/")`)
	}
	if _, problem := cutPattern(prefix + "x" + text.WithoutSlashAtEnd(suffix)); problem != "" {
		return n.refuseValue(problem)
	}
	return nil
}

// parseSource stores a source. It refuses one that has no kind, or several.
func (c *Config) parseSource(n *node) *Error {
	s := Source{MaxBytes: int(n.fields[sourceMaxBytes].number)}
	var kindField *node
	kinds, count := "", 0
	for i := range sourceKinds {
		k := &sourceKinds[i]
		if f := n.fields[k.field].node; f != nil {
			kinds = withWord(kinds, f.name)
			count++
			s.Kind, kindField = k.kind, f
		}
	}
	if count == 0 {
		return n.refuse("names no kind of source (want exactly one)")
	}
	if count > 1 {
		return n.refuse("names several kinds of source: " + kinds + " (want exactly one)")
	}
	switch s.Kind {
	case SourceHeader:
		s.Name = text.ChangeCase(kindField.text, text.ToLower)
	case SourceMetadata:
		s.Path = kindField.texts()
	case SourcePath:
		s.Prefix, _, s.Suffix, _ = cutTemplate(kindField)
	case SourceCluster:
	default:
		s.Name = kindField.text
	}
	list := &c.Identity.Class
	switch dimensionOf(kindField) {
	case "tenant":
		list = &c.Identity.Tenant
	case "model":
		list = &c.Identity.Model
	}
	*list = append(*list, s)
	return nil
}

// parseAliases stores model names and the names that they count as. It refuses a target that is an alias itself, so
// that one look-up gives the name that counts.
func (c *Config) parseAliases(n *node) *Error {
	aliases := map[string]string{}
	for e := n.first; e != nil; e = e.next {
		aliases[e.name] = e.text
	}
	for e := n.first; e != nil; e = e.next {
		if aliases[e.text] != "" {
			return e.refuseValue("is an alias itself (want the name that counts in the end)")
		}
	}
	c.Identity.Aliases = aliases
	return nil
}
