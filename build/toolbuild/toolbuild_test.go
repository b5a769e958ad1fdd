package toolbuild_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/build/toolbuild"
)

// clone makes a clone with one commit and returns its folder.
func clone(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	git(t, dir, "init", "-q")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), []byte("one"), 0o600))
	git(t, dir, "add", "file")
	git(t, dir, "commit", "-q", "-m", "Begin", "--date", "@1")
	return dir
}

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a",
		"GIT_COMMITTER_EMAIL=a@example.com", "GIT_COMMITTER_DATE=@1000000000 +0300", "GIT_CONFIG_GLOBAL=/dev/null")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
}

func stampOf(t *testing.T, dir string) toolbuild.Stamp {
	t.Helper()
	stamp, err := toolbuild.ReadStamp(dir)
	require.NoError(t, err)
	return stamp
}

func TestTheStampIsTheCommits(t *testing.T) {
	dir := clone(t)
	stamp := stampOf(t, dir)
	require.Len(t, stamp.Commit, 40)
	require.Equal(t, stamp.Commit[:12], stamp.Version)
	require.Equal(t, "2001-09-09T01:46:40Z", stamp.Time.Format(time.RFC3339))

	git(t, dir, "tag", "v1.2.3")
	require.Equal(t, "v1.2.3", stampOf(t, dir).Version)
	git(t, dir, "commit", "-q", "--allow-empty", "-m", "Go on")
	after := stampOf(t, dir)
	require.Equal(t, "v1.2.3-1-g"+after.Commit[:12], after.Version)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), []byte("two"), 0o600))
	require.Equal(t, after.Version+"-dirty", stampOf(t, dir).Version)
}

// Whoever has the source without its history can still build it, and say when it was made.
func TestTheStampOutsideOfAClone(t *testing.T) {
	inside := filepath.Join(clone(t), "source")
	require.NoError(t, os.Mkdir(inside, 0o700))
	for _, dir := range []string{t.TempDir(), inside} {
		require.Equal(t, toolbuild.Stamp{Version: "unknown", Time: time.Unix(0, 0).UTC()}, stampOf(t, dir))
	}
	t.Setenv("SOURCE_DATE_EPOCH", "1000000000")
	require.Equal(t, time.Unix(1e9, 0).UTC(), stampOf(t, inside).Time)
	t.Setenv("SOURCE_DATE_EPOCH", "today")
	_, err := toolbuild.ReadStamp(inside)
	require.EqualError(t, err, `$SOURCE_DATE_EPOCH: "today" is no number of seconds since 1970`)
}

func TestAToolNeedsItsModule(t *testing.T) {
	err := toolbuild.Tool(toolbuild.ToolBuild{Root: "../..", Platform: toolbuild.Host(), Module: "none.wasm", Out: filepath.Join(t.TempDir(), "tool")})
	require.ErrorContains(t, err, "the module that goes with the tool: open none.wasm")
}
