package docs_test

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// The metrics of the share service are those of its code.
func TestFleetMetricsAreThoseOfTheCode(t *testing.T) {
	var described, made []string
	for _, row := range table(t, read(t, "fleet.md"), "| metric | meaning |") {
		described = append(described, code(row[0]))
	}
	text := read(t, "../cluster/service/metrics.go")
	for _, m := range regexp.MustCompile(`(?:Name: |counter\()"(\w+)"`).FindAllStringSubmatch(text, -1) {
		made = append(made, "headgate_fleet_"+m[1])
	}
	require.ElementsMatch(t, made, described)
}
