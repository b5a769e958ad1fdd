package admission

var certificateNames = []string{"uri_san", "dns_san", "subject"}

// A sourceReader knows one kind of source: its field, and how to read it.
type sourceReader struct {
	name string
	kind SourceKind
	read func(o *object, f field, d Dimension, s *Source)
}

var sourceReaders = [...]sourceReader{
	{"header", SourceHeader, readHeader},
	{"metadata", SourceMetadata, readMetadata},
	{"peer_certificate", SourcePeerCertificate, readCertificate},
	{"filter_state", SourceFilterState, readText},
	{"json_body", SourceJSONBody, readBody},
	{"path", SourcePath, readPath},
	{"cluster", SourceCluster, readCluster},
	{"value", SourceValue, readText},
}

func parseIdentity(o *object) (i Identity) {
	i.Tenant = parseSources(o, DimensionTenant)
	i.Model = parseSources(o, DimensionModel)
	i.Class = parseSources(o, DimensionClass)
	if f, ok := o.get("aliases"); ok {
		i.Aliases = parseAliases(f)
	}
	o.done()
	return i
}

func parseSources(o *object, d Dimension) (sources []Source) {
	f, ok := o.get(dimensionNames[d])
	if !ok {
		return nil
	}
	for _, e := range f.array(0, maxSources) {
		sources = append(sources, parseSource(e.object(), d))
	}
	return sources
}

// parseSource reads a source, which has the field of exactly one kind.
func parseSource(o *object, d Dimension) (s Source) {
	var kinds []string
	for _, r := range sourceReaders {
		if r.kind == SourceJSONBody && d != DimensionModel {
			continue
		}
		if f, ok := o.get(r.name); ok {
			kinds = append(kinds, r.name)
			s = Source{Kind: r.kind}
			r.read(o, f, d, &s)
		}
	}
	o.done()
	if len(kinds) != 1 && !o.broken {
		o.fail("names " + countKinds(kinds) + " (want exactly one)")
	}
	return s
}

func countKinds(kinds []string) string {
	if len(kinds) == 0 {
		return "no kind of source"
	}
	return "several kinds of source: " + join(kinds, ", ")
}

func readHeader(o *object, f field, d Dimension, s *Source) {
	s.Name, _ = f.header()
	readTrust(o, f, d)
}

// readTrust refuses what clients choose as a tenant or class, unless the operator vouches for it.
func readTrust(o *object, f field, d Dimension) {
	trusted := false
	if t, ok := o.get("trusted"); ok {
		trusted, _ = t.boolean()
	}
	if !trusted && d != DimensionModel {
		f.refuse(`needs "trusted": true beside it, the operator's word that no client can choose it`)
	}
}

func readMetadata(_ *object, f field, _ Dimension, s *Source) {
	if s.Path = parseTexts(f, 1+maxMetadata); len(s.Path) == 1 {
		f.fail("has 1 element (want a namespace and at least one key)")
	}
}

func readCertificate(_ *object, f field, _ Dimension, s *Source) {
	if i, ok := f.choice(certificateNames); ok {
		s.Name = certificateNames[i]
	}
}

func readText(_ *object, f field, _ Dimension, s *Source) { s.Name, _ = f.text() }

func readBody(o *object, f field, _ Dimension, s *Source) {
	s.Name, _ = f.text()
	s.MaxBytes = 65536
	o.integer("max_bytes", 1, maxBodyBytes, &s.MaxBytes)
}

func readCluster(_ *object, f field, _ Dimension, _ *Source) {
	if yes, ok := f.boolean(); ok && !yes {
		f.refuse("means nothing (want true, or no such source)")
	}
}

func readPath(o *object, f field, d Dimension, s *Source) {
	readTrust(o, f, d)
	template, ok := f.text()
	placeholder := "{" + dimensionNames[d] + "}"
	prefix, suffix, found := cut(template, placeholder)
	switch {
	case !ok:
	case !found || containsAny(prefix+suffix, "{}*"):
		f.refuse("is not a path template (want exactly one " + placeholder + `, e.g. "/deployments/` + placeholder + `/")`)
	default:
		if problem := checkPattern(prefix + "x" + withoutSlashAtEnd(suffix)); problem != "" {
			f.refuse(problem)
		}
	}
	s.Prefix, s.Suffix = prefix, suffix
}

// parseAliases reads model names and what they count as. One step only: a target that is an alias itself is refused.
func parseAliases(f field) map[string]string {
	aliases := map[string]string{}
	entries := f.entries()
	for _, e := range entries {
		aliases[e.name], _ = e.text()
	}
	for _, e := range entries {
		if _, chained := aliases[e.value.text]; chained {
			e.refuse("is an alias itself (want the name that counts in the end)")
		}
	}
	return aliases
}
