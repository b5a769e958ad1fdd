package main

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// warnOfRepeated warns of flags that were given more than once where only one value can count.
func warnOfRepeated(n *notes, f *flagSet) {
	f.VisitAll(func(flag *pflag.Flag) {
		if value, isValue := flag.Value.(*flagValue); isValue && !value.isList && value.times > 1 {
			last := ": " + value.last
			if value.secret {
				last = ""
			}
			n.warn("--%s is given %d times, and only the last one counts%s", flag.Name, value.times, last)
		}
	})
}

// warnOfIgnored warns of given flags that change nothing, and says why.
func (g *gateway) warnOfIgnored(n *notes, f *flagSet) {
	if !g.retries.enabled() {
		given := f.givenIn([]string{sectionRetries})
		warnOfUseless(n, slices.DeleteFunc(given, func(name string) bool { return name == "retry" }), "with --retry 0")
	}
	if !g.shaping.headroom && f.isGiven("adaptive-headroom-window") {
		warnOfUseless(n, []string{"adaptive-headroom-window"}, "with --adaptive-headroom off")
	}
}

// ignoredByIstio are the sections whose flags are for an Envoy of Headgate's own. In a mesh Istio decides.
var ignoredByIstio = []string{sectionAddresses, sectionRetries, sectionProcess}

// warnOfIgnoredByIstio warns of given flags that a WasmPlugin has no place for.
func warnOfIgnoredByIstio(n *notes, f *flagSet) {
	warnOfUseless(n, f.givenIn(ignoredByIstio), "in a WasmPlugin: in Istio the mesh decides that")
}

func warnOfUseless(n *notes, names []string, where string) {
	verb := "change"
	if len(names) == 1 {
		verb = "changes"
	}
	if len(names) > 0 {
		n.warn("--%s %s nothing %s", strings.Join(names, ", --"), verb, where)
	}
}
