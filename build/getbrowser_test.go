package build_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func getBrowser(t *testing.T, env ...string) (path, said string, err error) {
	t.Helper()
	script := exec.Command("./get-browser")
	script.Env = env
	var stderr strings.Builder
	script.Stderr = &stderr
	out, err := script.Output()
	return strings.TrimSuffix(string(out), "\n"), stderr.String(), err
}

func TestGetBrowserTakesTheFirstThereIs(t *testing.T) {
	chrome, chromium, mine := program(t, "google-chrome", ""), program(t, "chromium", ""), program(t, "mine", "")
	tools := onlyBash(t)
	for _, c := range []struct {
		env  []string
		want string
	}{
		{[]string{"PATH=" + chrome + ":" + chromium + ":" + tools}, filepath.Join(chromium, "chromium")},
		{[]string{"PATH=" + chrome + ":" + tools}, filepath.Join(chrome, "google-chrome")},
		{[]string{"PATH=" + chromium + ":" + tools, "CHROMIUM=" + filepath.Join(mine, "mine")}, filepath.Join(mine, "mine")},
		{[]string{"PATH=" + chromium + ":" + mine + ":" + tools, "CHROMIUM=mine"}, filepath.Join(mine, "mine")},
	} {
		path, said, err := getBrowser(t, c.env...)
		require.NoError(t, err, said)
		require.Equal(t, c.want, path)
		require.Empty(t, said)
	}
}

func TestGetBrowserSaysWhatIsMissing(t *testing.T) {
	tools := onlyBash(t)
	_, said, err := getBrowser(t, "PATH="+tools)
	require.Error(t, err)
	require.Equal(t, "get-browser: error: Chromium is missing: install it (Debian: apt-get install chromium), "+
		"or set $CHROMIUM to a Chromium or Chrome\n", said)
	_, said, err = getBrowser(t, "PATH="+program(t, "chromium", "")+":"+tools, "CHROMIUM=/nowhere")
	require.Error(t, err)
	require.Contains(t, said, "error: $CHROMIUM is /nowhere, which is no executable file")
}

// onlyBash is a folder with no other program.
func onlyBash(t *testing.T) string {
	t.Helper()
	bash, err := exec.LookPath("bash")
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.Symlink(bash, filepath.Join(dir, "bash")))
	return dir
}
