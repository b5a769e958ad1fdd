package check

import (
	"fmt"
	"strings"

	"github.com/headgate/headgate/admission/config"
	"github.com/headgate/headgate/admission/request"
)

// anyRun stands in a path for what a pattern's '*' stands for. Patterns hardly have it, so only another '*' matches it.
const anyRun = "~"

// warnOfRoutes warns of patterns that never match because an earlier one matches the same requests and more.
func (r *Report) warnOfRoutes(p *plugin) {
	trees := p.root.member("routes").items()
	for i, route := range p.config.Routes {
		if i >= len(trees) || !inFile(trees[i]) {
			continue
		}
		path := "/" + strings.ReplaceAll(strings.Join(route.Segments, "/"), "*", anyRun)
		for j, wider := range p.config.Routes[:i] {
			if !inFile(trees[j]) || wider.Method != "" && wider.Method != route.Method {
				continue
			}
			if _, covers := request.MatchRoute([]config.Route{wider}, route.Method, path); covers {
				r.warn("unreachable-route", trees[i].line, fmt.Sprintf("routes[%d]", i),
					"%q never counts: routes[%d] %q stands before it and matches all its requests (put the longer pattern first)",
					trees[i].str(), j, trees[j].str())
				break
			}
		}
	}
}
