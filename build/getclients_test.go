package build_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func getClients(t *testing.T, env []string, args ...string) (path, said string, err error) {
	t.Helper()
	script := exec.Command("./get-clients", args...)
	script.Env = env
	var stderr strings.Builder
	script.Stderr = &stderr
	out, err := script.Output()
	return strings.TrimSuffix(string(out), "\n"), stderr.String(), err
}

// A Python that is new enough, knows a digest and makes virtual environments.
const clientsPython = `
case "$1 $2" in
  "-c import hashlib"*) echo 0123456789ab ;;
  "-m venv") mkdir -p "$3/bin"; cp "$0" "$3/bin/python" ;;
esac`

func TestGetClientsInstallsOnceAndRepairsWhatWasInterrupted(t *testing.T) {
	python, npm := program(t, "python3", clientsPython), program(t, "npm", "mkdir node_modules")
	tools := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(tools, "new-client.left", "made"), 0o700))
	env := []string{"HEADGATE_TOOLS=" + tools, "PATH=" + python + ":" + npm + ":/usr/bin:/bin"}
	for which, inside := range map[string]string{"python": "/bin/python", "javascript": "", "axe": ""} {
		for _, installs := range []bool{true, false} {
			path, said, err := getClients(t, env, which)
			require.NoError(t, err, said)
			require.Equal(t, filepath.Join(tools, "clients-"+which+"-0123456789ab")+inside, path)
			require.Equal(t, installs, strings.Contains(said, "get-clients: getting "), said)
		}
	}
	left, err := filepath.Glob(filepath.Join(tools, "new-client.*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestGetClientsSaysWhatIsMissing(t *testing.T) {
	failing := func(what, with string) string { return strings.Replace(clientsPython, what, with, 1) }
	for name, c := range map[string]struct{ python, npm, which, want string }{
		"a name": {clientsPython, "", "perl", "error: want python, javascript or axe"},
		"venv": {failing(`mkdir -p "$3/bin"`, "exit 1"), "", "python",
			"error: python3 can't make a virtual environment: install its venv module"},
		"a newer": {failing(`"-c import hashlib"`, `"-c import sys"*) exit 1 ;; "-c import hashlib"`), "", "python",
			"error: python3 is older than 3.11"},
		"PyPI": {failing(`"-m venv"`, `"-m pip") echo "ERROR: no route"; exit 1 ;; "-m venv"`), "", "python",
			"error: pip can't get the Python clients: ERROR: no route; is PyPI reachable?"},
		"registry": {clientsPython, "echo 'npm error no route'; exit 1", "javascript",
			"error: npm can't get the JavaScript client: npm error no route; is the npm registry reachable?"},
	} {
		path := program(t, "python3", c.python) + ":" + program(t, "npm", c.npm) + ":/usr/bin:/bin"
		_, said, err := getClients(t, []string{"HEADGATE_TOOLS=" + t.TempDir(), "PATH=" + path}, c.which)
		require.Error(t, err, name)
		lines := strings.Split(strings.TrimSpace(said), "\n")
		require.Contains(t, lines[len(lines)-1], c.want, name)
	}
}
