package main

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/cmd/headgate/internal/screentest"
	"github.com/headgate/headgate/envoy/rig"
)

// screenWithin is how long a screen has to show what it should.
const screenWithin = 10 * time.Second

// A screen is a terminal on which headgate runs.
type screen struct {
	*screentest.Terminal
	t *testing.T
}

// startScreen runs `headgate top` on a terminal. env is added to its environment.
func startScreen(t *testing.T, width, height int, env []string, args ...string) *screen {
	t.Helper()
	args = append([]string{"top", "--interval", "100ms"}, args...)
	return startScreenIn(t, screentest.Dark, width, height, env, args...)
}

// startScreenIn runs headgate on a terminal with these colours.
func startScreenIn(t *testing.T, colours screentest.Colours, width, height int, env []string, args ...string) *screen {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, args...)
	isOurs := func(line string) bool {
		name, _, _ := strings.Cut(line, "=")
		return slices.Contains([]string{"NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "TERM_PROGRAM", "SSH_TTY", "TMUX"}, name)
	}
	cmd.Env = append(slices.DeleteFunc(os.Environ(), isOurs), asTool+"=1", "TERM=xterm-256color", "COLORTERM=truecolor",
		"LANG=C.UTF-8")
	cmd.Env = append(cmd.Env, env...)
	terminal, err := screentest.Start(cmd, width, height, colours)
	require.NoError(t, err)
	t.Cleanup(terminal.Close)
	return &screen{terminal, t}
}

// shows waits until the screen shows all of the patterns.
func (s *screen) shows(patterns ...string) {
	s.t.Helper()
	s.showsWithin(screenWithin, patterns...)
}

func (s *screen) showsWithin(bound time.Duration, patterns ...string) {
	s.t.Helper()
	lacks := func() string {
		text := s.Text()
		for _, pattern := range patterns {
			if !regexp.MustCompile(pattern).MatchString(text) {
				return pattern
			}
		}
		return ""
	}
	if !rig.Poll(bound, func() bool { return lacks() == "" }) {
		s.t.Fatalf("the screen lacks %q:\n%s", lacks(), s.Text())
	}
}

// keys types keys.
func (s *screen) keys(keys string) {
	s.t.Helper()
	require.NoError(s.t, s.Type(keys))
}

// requireEnded waits until headgate has ended well and checks that the terminal is as before.
func (s *screen) requireEnded() {
	s.t.Helper()
	status, ended := s.Ended(screenWithin)
	require.True(s.t, ended, "still there:\n%s", s.Text())
	require.Equal(s.t, 0, status)
	require.Empty(s.t, s.Restored())
}

func cellsOf(text string) int { return ansi.StringWidth(text) }
