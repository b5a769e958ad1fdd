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
//   - the last line where the log has no error. What Envoy says about deprecated fields is no reason.
func endReason(log string) string {
	lines := slices.DeleteFunc(strings.Split(strings.TrimSpace(log), "\n"), isAboutDeprecation)
	if len(lines) == 0 {
		return "its log has no reason"
	}
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

func isAboutDeprecation(line string) bool { return strings.Contains(line, "Deprecated field") }

func isAboutWasm(line string) bool { return strings.Contains(line, "[wasm]") }

func lastError(lines []string) string {
	for _, line := range slices.Backward(lines) {
		if strings.Contains(line, "[error]") || strings.Contains(line, "[critical]") {
			return line
		}
	}
	return ""
}
