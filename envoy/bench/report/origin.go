package report

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// Origin says how a part came about: the command, of which commit, and on what machine. A load above the number of
// cores means that the machine had other work.
func Origin(command, revision, envoy string) string {
	return fmt.Sprintf("*`%s`, %s, %s; %s, %d cores, load %s before the start; %s, Envoy %s.*", command,
		time.Now().UTC().Format(time.DateOnly), revision, processor(), runtime.NumCPU(), loadAverage(),
		strings.Replace(runtime.Version(), "go", "Go ", 1), envoy)
}

// Revision is the commit of the working directory, and whether something there differs from it.
func Revision() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty", "--exclude=*").Output()
	if err != nil {
		return "unknown commit"
	}
	return "commit " + strings.TrimSpace(string(out))
}

// processor is the processor's name.
func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// loadAverage is that of the last minute.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}
