package rig

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Log is what Envoy has logged so far.
func (e *Envoy) Log() string {
	text, err := os.ReadFile(filepath.Join(e.dir, "envoy.log"))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

var (
	trap          = regexp.MustCompile(`Uncaught RuntimeError|VM failed |wasm trap|goroutine \d+ \[|panic: `)
	refusedConfig = regexp.MustCompile(`VM failed Failed to configure`)
)

// traps returns the lines that say that a VM or the module in it broke. A configuration that the module refuses is
// logged in much the same words and is no trap.
func traps(log string) []string {
	var lines []string
	for line := range strings.Lines(log) {
		if trap.MatchString(line) && !refusedConfig.MatchString(line) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// tail returns the last n lines.
func tail(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
