package main

import (
	"regexp"
	"slices"
	"strings"
)

// logPrefix is what Envoy puts before a message: [time][thread][level][logger] [source:line].
var logPrefix = regexp.MustCompile(`^(\[[^\]]*\] ?)+`)

// endReason returns the message of an Envoy log that most likely says why Envoy ended:
//   - the last error;
//   - the first line about wasm where the last error is about the wasm plugin, since Envoy logs the cause first;
//   - the last line where the log has no error.
func endReason(log string) string {
	lines := strings.Split(strings.TrimSpace(log), "\n")
	line := lines[len(lines)-1]
	if last := lastError(lines); last != "" {
		line = last
	}
	if i := slices.IndexFunc(lines, isAboutWasm); i >= 0 && strings.Contains(line, "Wasm plugin") {
		line = lines[i]
	}
	if line = logPrefix.ReplaceAllString(line, ""); line == "" {
		return "its log is empty"
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
