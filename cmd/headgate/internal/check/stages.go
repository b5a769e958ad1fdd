package check

import (
	"fmt"
	"maps"
	"slices"

	"github.com/headgate/headgate/admission/config"
)

// warnOfStages warns of filters that don't work together. isWhole says that there are no others elsewhere.
func (r *Report) warnOfStages(filters []*filter, isWhole bool) {
	told := map[string]bool{}
	for i, f := range filters {
		if f.config() == nil {
			continue
		}
		for _, first := range filters[:i] {
			if first.config() != nil && first.config().Domain == f.config().Domain {
				r.warnOfVMs(first, f)
				r.warnOfDifferences(first, f)
				break
			}
		}
		if isWhole {
			r.warnOfUnasked(f, filters, told)
		} else if !slices.ContainsFunc(filters, f.hasPartnerThatAsks) {
			r.warnOfNothing(f.plugin)
		}
	}
}

// hasPartnerThatAsks reports whether the other filter asks a pool that the two share. One with errors may.
func (f *filter) hasPartnerThatAsks(other *filter) bool {
	return other.config() == nil || other.config().Domain == f.config().Domain && !other.plugin.limitsNothing()
}

// warnOfVMs warns of two filters that should share their pools, and run in VMs that share nothing.
func (r *Report) warnOfVMs(first, f *filter) {
	for _, name := range []string{"vm_id", "code", "configuration"} {
		a, b := first.wasm.field("vm_config/"+name), f.wasm.field("vm_config/"+name)
		if written(a) == written(b) {
			continue
		}
		r.warn("vm-differs", b.lineOr(f.wasm.lineOr(f.entry.line)), "", "vm_config.%s is not that of the filter %q in line "+
			"%d: the two run in different VMs, so they don't see each other's requests (want the same vm_id, code and "+
			"configuration)", name, first.name, first.entry.line)
		return
	}
}

// written returns a value as JSON, for comparing.
func written(v *value) string {
	if v == nil {
		return ""
	}
	return string(encode(v).bytes)
}

// warnOfDifferences warns of two filters that share pools, and say different things of them.
func (r *Report) warnOfDifferences(first, f *filter) {
	if a, b := first.config().Mode, f.config().Mode; a != b {
		r.warn("stages-differ", f.plugin.root.member("mode").lineOr(f.plugin.root.line), "mode",
			"is %s here and %s in the filter %q in line %d", modeNames[b], modeNames[a], first.name, first.entry.line)
	}
	for i, b := range f.plugin.pools {
		for j := range first.config().Pools {
			a := &first.config().Pools[j]
			if a.Name != b.Name {
				continue
			}
			if a.Limit != b.Limit || a.Queue != b.Queue || !slices.Equal(a.Key, b.Key) || !maps.Equal(a.Keys, b.Keys) {
				r.warn("stages-differ", b.tree.line, fmt.Sprintf("pools[%d]", i), "pool %q has another limit, queue or key in the "+
					"filter %q in line %d: the limit of the one that wrote last is in force for both", b.Name, first.name,
					first.entry.line)
			}
		}
	}
}

// warnOfUnasked warns of pools that no filter asks. told are those that it has warned of before, with their domains.
func (r *Report) warnOfUnasked(f *filter, filters []*filter, told map[string]bool) {
	for i, p := range f.plugin.pools {
		asksIt := func(other *filter) bool {
			return other.config() == nil || other.config().Domain == f.config().Domain &&
				slices.ContainsFunc(other.plugin.asked, func(asked pool) bool { return asked.Name == p.Name })
		}
		name := f.config().Domain + " " + p.Name
		if f.is(config.StageAdmin) || told[name] || slices.ContainsFunc(filters, asksIt) {
			continue
		}
		told[name] = true
		missing, where := "attempt", "the http_filters of the cluster"
		if p.Per == config.PerInvocation {
			missing, where = "invocation", "the http_filters of the listener"
		}
		r.warn("pool-never-asked", p.tree.line, fmt.Sprintf("pools[%d]", i), "no filter asks pool %q: it needs one with "+
			"stage %q in %s", p.Name, missing, where)
	}
}
