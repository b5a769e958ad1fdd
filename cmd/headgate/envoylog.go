package main

import (
	"regexp"
	"slices"
	"strings"
)

// logPrefix is what Envoy puts before a message: [time][thread][level][logger] [source:line].
var logPrefix = regexp.MustCompile(`^(\[[^\]]*\] ?)+`)

// tellingLine returns the message of an Envoy log that most likely says why Envoy ended: the last error, or, where that is
// about the wasm plugin, what the first line about wasm says, since the causes come first; without an error, the last line.
func tellingLine(log string) string {
	lines := strings.Split(strings.TrimSpace(log), "\n")
	line := lines[len(lines)-1]
	if last := lastError(lines); last != "" {
		line = last
	}
	if i := slices.IndexFunc(lines, isAboutWasm); i >= 0 && strings.Contains(line, "Wasm plugin") {
		line = lines[i]
	}
	if line = logPrefix.ReplaceAllString(line, ""); line == "" {
		return "it said nothing"
	}
	return line
}

func isAboutWasm(line string) bool { return strings.Contains(line, "[wasm]") }

func lastError(lines []string) string {
	for _, line := range slices.Backward(lines) {
		if strings.Contains(line, "[error]") || strings.Contains(line, "[critical]") {
			return line
		}
	}
	return ""
}
