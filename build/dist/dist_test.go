package dist_test

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/build/dist"
	"github.com/headgate/headgate/build/toolbuild"
)

// With -explore the release is for all platforms: the first time Go compiles everything for each of them.
var explore = flag.Bool("explore", false, "make the whole release, for all platforms")

func platforms() []toolbuild.Platform {
	if *explore {
		return toolbuild.Released()
	}
	return []toolbuild.Platform{toolbuild.Host()}
}

var stamp = toolbuild.Stamp{Version: "v1.2.3", Commit: "346e52681e5e4095324c84804988e68b5607f35d", Time: time.Unix(1e9, 0).UTC()}

// copyOfTree copies the source, without what is built and fetched, and returns the folder.
func copyOfTree(t *testing.T) string {
	t.Helper()
	const root = "../.."
	built := []string{"dist", "build/headgate", "build/headgate.wasm"}
	dir := filepath.Join(t.TempDir(), "a copy")
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		name, err := filepath.Rel(root, path)
		require.NoError(t, err)
		switch {
		case strings.HasPrefix(d.Name(), ".") || slices.Contains(built, filepath.ToSlash(name)):
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		case d.IsDir():
			return os.MkdirAll(filepath.Join(dir, name), 0o700)
		}
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		return os.WriteFile(filepath.Join(dir, name), data, 0o600)
	}))
	return dir
}

// release makes a release from a copy of the tree, in place of an older one.
func release(t *testing.T) (folder string) {
	t.Helper()
	root := copyOfTree(t)
	out := filepath.Join(root, "dist")
	require.NoError(t, os.MkdirAll(filepath.Join(out, "old"), 0o700))
	require.NoError(t, dist.Make(dist.Release{Root: root, Out: out, Stamp: stamp, Platforms: platforms()}))
	left, err := filepath.Glob(filepath.Join(root, ".dist-*"))
	require.NoError(t, err)
	require.Empty(t, left)
	return out
}

// files are the names and the contents of a folder's files.
func files(t *testing.T, folder string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	found := map[string]string{}
	for _, e := range entries {
		found[e.Name()] = content(t, folder, e.Name())
	}
	return found
}

func content(t *testing.T, path ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(path...))
	require.NoError(t, err)
	return string(data)
}

// unpack writes the files of an archive into a folder, and checks what is said of each.
func unpack(t *testing.T, data, into string) (names []string) {
	t.Helper()
	text, err := gzip.NewReader(strings.NewReader(data))
	require.NoError(t, err)
	require.True(t, text.ModTime.IsZero(), "the time of the build is in the archive")
	archive := tar.NewReader(text)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		require.NoError(t, err)
		require.True(t, header.ModTime.Equal(stamp.Time), header.Name)
		require.Zero(t, header.Uid+header.Gid, header.Name)
		require.Empty(t, header.Uname+header.Gname, header.Name)
		path := filepath.Join(into, header.Name)
		if header.Typeflag == tar.TypeDir {
			require.NoError(t, os.MkdirAll(path, 0o700))
			continue
		}
		names = append(names, header.Name)
		content, err := io.ReadAll(archive)
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, content, header.FileInfo().Mode()))
	}
}

func TestTwoReleasesFromTwoFoldersAreEqual(t *testing.T) {
	one := files(t, release(t))
	two := files(t, release(t))
	for name, content := range one {
		require.True(t, content == two[name], "%s differs", name)
	}
	require.Len(t, two, len(one))
	requireSums(t, one)
	for _, p := range platforms() {
		name := "headgate-" + p.String()
		dir := t.TempDir()
		require.Equal(t, []string{
			name + "/headgate", name + "/headgate.wasm", name + "/THIRD_PARTY_LICENSES", name + "/LICENSE", name + "/CHANGELOG.md",
			name + "/man/man1/headgate.1", name + "/completions/headgate.bash", name + "/completions/headgate.fish", name + "/completions/_headgate",
		}, unpack(t, one[name+".tar.gz"], dir))
		require.Equal(t, one["headgate.wasm"], content(t, dir, name, "headgate.wasm"))
		require.Contains(t, one[name+".cdx.json"], hashOf(content(t, dir, name, "headgate")), "the SBOM tells the hash of the tool")
		if p == toolbuild.Host() {
			requireToolWorks(t, filepath.Join(dir, name), hashOf(one["headgate.wasm"]))
		}
	}
}

func hashOf(content string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(content))) }

// requireSums checks that SHA256SUMS has each of the other files, and nothing else.
func requireSums(t *testing.T, release map[string]string) {
	t.Helper()
	var want strings.Builder
	names := []string{}
	for name := range release {
		if name != "SHA256SUMS" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&want, "%s  %s\n", hashOf(release[name]), name)
	}
	require.Equal(t, want.String(), release["SHA256SUMS"])
	require.Subset(t, names, []string{"headgate.wasm", "headgate.wasm.cdx.json", "THIRD_PARTY_LICENSES"})
}

// requireToolWorks runs the unpacked tool, and looks for all that it says of itself in what goes along with it.
func requireToolWorks(t *testing.T, folder, module string) {
	t.Helper()
	run := func(args ...string) string {
		out, err := exec.Command(filepath.Join(folder, "headgate"), args...).Output()
		require.NoError(t, err)
		return string(out)
	}
	var about struct {
		Version, Commit string
		Module          string `json:"module_sha256"`
	}
	require.NoError(t, json.Unmarshal([]byte(run("version", "--json")), &about))
	require.Equal(t, stamp.Version, about.Version)
	require.Equal(t, stamp.Commit, about.Commit)
	require.Equal(t, module, about.Module)
	for shell, file := range map[string]string{"bash": "headgate.bash", "fish": "headgate.fish", "zsh": "_headgate"} {
		require.Equal(t, run("completion", shell), content(t, folder, "completions", file))
	}
	page := content(t, folder, "man", "man1", "headgate.1")
	require.True(t, strings.HasPrefix(page, `.nh`+"\n"+`.TH "HEADGATE" "1" `), "%.60q", page)
	plain := regexp.MustCompile(`\\f[A-Z]|\\`).ReplaceAllString(page, "")
	for _, command := range regexp.MustCompile(`(?m)^  headgate (\w+)`).FindAllStringSubmatch(run("help"), -1) {
		if command[1] == "help" {
			continue
		}
		require.True(t, strings.Contains(plain, "\n.SH headgate "+command[1]), command[1])
		for _, flag := range regexp.MustCompile(`(?m)^  (--[\w-]+)`).FindAllStringSubmatch(run("help", command[1]), -1) {
			if flag[1] != "--version" {
				require.True(t, strings.Contains(plain, "\n"+flag[1]), "%s %s", command[1], flag[1])
			}
		}
	}
}

// What can't be made leaves the release that is there.
func TestAFailedReleaseChangesNothing(t *testing.T) {
	out := filepath.Join(t.TempDir(), "dist")
	require.NoError(t, os.MkdirAll(out, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(out, "SHA256SUMS"), []byte("old"), 0o600))
	err := dist.Make(dist.Release{Root: t.TempDir(), Out: out, Stamp: stamp, Platforms: platforms()})
	require.Error(t, err)
	require.Equal(t, map[string]string{"SHA256SUMS": "old"}, files(t, out))
	entries, err := os.ReadDir(filepath.Dir(out))
	require.NoError(t, err)
	require.Len(t, entries, 1)
}
