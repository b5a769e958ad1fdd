package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path"
	"strings"
	"syscall"
	"time"
)

// A fate is what became of a change.
type fate string

const (
	fateCaught   fate = "caught"
	fateTimeout  fate = "caught by the time limit"
	fateSlow     fate = "caught by a slow test alone"
	fateSurvived fate = "survived"
	fateNoBuild  fate = "doesn't build" // so it doesn't count
)

// A step is a command of a trial, and what its failure makes of the change.
type step struct {
	command []string
	failure fate
}

const (
	// slowCore are admission's tests that take long: the explorations, and those that test the checks themselves.
	slowCore = "Explore|Mutant"
	// slowFilter are filter's tests that take long: simulations, crowds, whole lives of pools.
	slowFilter = "Sim$|Crowd|Thousand|LongestQueue|TenantsThatOnlyWaited|StreamsOutlive|CountsLonger|ModuleUpgrade|" +
		"SecondFailureDuringAHold|HoldSurvivesAReload|LeaveNoMemory"
	// measuring is a test of filter's that measures time: on a machine with other work it fails without a fault.
	measuring = "FiveTimesOne"
)

// steps are what is run on a change, until something fails: the build, the quick tests, and the slow ones if wanted.
func steps(file string, limit time.Duration, slow bool) []step {
	test := func(f fate, more ...string) step {
		command := []string{"go", "test", "-count=1", "-failfast", "-timeout", limit.String()}
		return step{append(command, more...), f}
	}
	var steps []step
	if isCore(file) {
		steps = append(steps,
			step{[]string{"go", "build", "./admission/..."}, fateNoBuild},
			test(fateCaught, "-skip", slowCore, "./admission"),
			test(fateCaught, "./admission/config", "./admission/request"))
		if slow {
			steps = append(steps, test(fateSlow, "-run", slowCore, "./admission"))
		}
		return steps
	}
	steps = append(steps, step{[]string{"make", "-s", "module"}, fateNoBuild})
	if dir := path.Dir(file); dir != "filter" {
		steps = append(steps, test(fateCaught, "./"+dir))
	}
	steps = append(steps, test(fateCaught, "-skip", slowFilter, "./filter"))
	if slow {
		steps = append(steps, test(fateSlow, "-run", slowFilter, "-skip", measuring, "./filter"))
	}
	return steps
}

// isCore tells whether a file is of the record, whose tests need no module.
func isCore(file string) bool { return strings.HasPrefix(file, "admission/") }

// try runs the steps and returns what became of the change, and what says so.
func (t tree) try(steps []step, limit time.Duration) (fate, string, error) {
	for _, s := range steps {
		out, err := t.run(s.command, limit)
		var exit *exec.ExitError
		switch {
		case err == nil:
			continue
		case errors.Is(err, context.DeadlineExceeded):
			return fateTimeout, "", nil
		case !errors.As(err, &exit):
			return "", "", err
		case s.failure == fateNoBuild:
			return fateNoBuild, firstLine(out), nil
		case bytes.Contains(out, []byte("panic: test timed out")):
			return fateTimeout, "", nil
		case bytes.Contains(out, []byte("[build failed]")):
			return fateNoBuild, firstLine(out), nil // the package's tests read it otherwise than the module
		}
		return s.failure, failedTest(out), nil
	}
	return fateSurvived, "", nil
}

// run runs a command in the tree, with all that it starts, for so long at most.
func (t tree) run(command []string, limit time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	c := exec.CommandContext(ctx, command[0], command[1:]...)
	c.Dir = t.dir
	c.Env = append(os.Environ(), "HEADGATE_WASM=")
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	out, err := c.CombinedOutput()
	if ctx.Err() != nil {
		return out, ctx.Err()
	}
	return out, err
}

// failedTest is the first test that failed.
func failedTest(out []byte) string {
	for line := range strings.Lines(string(out)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "--- FAIL: "); ok {
			name, _, _ = strings.Cut(name, " ")
			return name
		}
	}
	return firstLine(out)
}

func firstLine(out []byte) string {
	for line := range strings.Lines(string(out)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			return line
		}
	}
	return ""
}
