package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// A discovery hands parts of a bootstrap to Envoy in files of their own, which Envoy reads again when they change: the
// Headgate filters and the routes. Envoy takes them over without a restart and without a drained connection. A request
// keeps the configuration that it began with.
type discovery struct {
	dir     string // absolute
	version int
	parts   map[string]any // what the files have, by their names
}

const (
	typeOfFilter = "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm"
	typeOfPart   = "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig"
	typeOfRoutes = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
)

// split takes the parts out of a bootstrap. It returns the rest, which names their files, and the parts. filters are
// the paths of the Headgate filters, by their stages. Filters of one stage are the same part.
func (d *discovery) split(
	bootstrap []byte, filters map[string][]string,
) (rest []byte, parts map[string]any, err error) {
	e := editYAML(bootstrap)
	parts = map[string]any{}
	for stage, paths := range filters {
		name := "headgate-" + stage
		for _, path := range paths {
			filter := strings.TrimSuffix(path, "typed_config/config/")
			config, _ := e.value(filter + "typed_config")
			parts[name] = map[string]any{"@type": typeOfPart, "name": name, "typed_config": config}
			e.remove(filter + "typed_config")
			e.set(filter+"name", name)
			e.set(filter+"config_discovery", map[string]any{
				"config_source": d.source(name), "type_urls": []string{typeOfFilter},
			})
		}
	}
	const routes = "headgate-routes"
	table, _ := e.value(connectionPath + "route_config")
	if table, isMap := table.(map[string]any); isMap {
		table["@type"], table["name"] = typeOfRoutes, routes
		parts[routes] = table
	}
	e.remove(connectionPath + "route_config")
	e.set(connectionPath+"rds", map[string]any{"route_config_name": routes, "config_source": d.source(routes)})
	rest, err = e.bytes()
	return rest, parts, err
}

func (d *discovery) path(name string) string { return filepath.Join(d.dir, name+".json") }

func (d *discovery) source(name string) map[string]any {
	return map[string]any{"resource_api_version": "V3", "path_config_source": map[string]any{"path": d.path(name)}}
}

// write writes the files, each in one step, so that Envoy never reads half a file.
func (d *discovery) write(parts map[string]any) error {
	d.version++
	for name, part := range parts {
		text, err := json.Marshal(map[string]any{
			"version_info": strconv.Itoa(d.version), "resources": []any{part},
		})
		if err != nil {
			return err
		}
		if err := os.WriteFile(d.path(name)+".new", text, 0o600); err != nil {
			return err
		}
		if err := os.Rename(d.path(name)+".new", d.path(name)); err != nil {
			return err
		}
	}
	d.parts = maps.Clone(parts)
	return nil
}

// The stats of Envoy that say which version of a file it has, and how often it refused one.
const discoveryStats = `/stats?filter=` +
	`^(extension_config_discovery|http\.[^.]*\.rds)\..*\.(version_text|update_rejected)$`

var (
	tookVersion   = regexp.MustCompile(`(?m)\.version_text: "?(\d+)"?\s*$`)
	timesRejected = regexp.MustCompile(`(?m)\.update_rejected: (\d+)\s*$`)
)

// verdict reads those stats: how many files Envoy has in the version that was written last, and how often it has
// refused one.
func (d *discovery) verdict(proxy *envoyProcess) (taken, refused int, err error) {
	stats, err := proxy.ask(discoveryStats)
	if err != nil {
		return 0, 0, fmt.Errorf("Envoy does not say what it has: %w", err)
	}
	for _, m := range tookVersion.FindAllSubmatch(stats, -1) {
		if string(m[1]) == strconv.Itoa(d.version) {
			taken++
		}
	}
	for _, m := range timesRejected.FindAllSubmatch(stats, -1) {
		n, _ := strconv.Atoi(string(m[1]))
		refused += n
	}
	return taken, refused, nil
}
