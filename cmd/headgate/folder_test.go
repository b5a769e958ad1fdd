package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/envoy/rig"
)

func TestFoldersOfTheDeadAreRemovedAndNoOthers(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	alive, err := makeFolder()
	require.NoError(t, err)
	kept, err := makeFolder()
	require.NoError(t, err)
	kept.keep()
	dead, err := makeFolder()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dead.path, "envoy.yaml"), nil, 0o600))
	require.NoError(t, dead.lock.Close()) // what the system does when its owner dies

	envoys, err := makeFolder()
	require.NoError(t, err)
	inherited, err := syscall.Dup(int(envoys.lock.Fd())) // its Envoy outlives it, as outside Linux
	require.NoError(t, err)
	defer syscall.Close(inherited)
	require.NoError(t, envoys.lock.Close())

	elsewhere := t.TempDir()
	for path, isFolder := range map[string]bool{"headgate-1": true, "headgate-x": true, "other-2": true, "headgate-3": false} {
		if !isFolder {
			require.NoError(t, os.WriteFile(filepath.Join(tmp, path), nil, 0o600))
			continue
		}
		require.NoError(t, os.Mkdir(filepath.Join(tmp, path), 0o700))
		if path != "headgate-1" { // which has no lock, as what another program has made
			require.NoError(t, os.WriteFile(filepath.Join(tmp, path, lockName), nil, 0o600))
		}
	}
	require.NoError(t, os.WriteFile(filepath.Join(elsewhere, lockName), nil, 0o600))
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(tmp, "headgate-4")))
	require.NoError(t, os.Mkdir(filepath.Join(tmp, "headgate-5"), 0o700))
	require.NoError(t, os.Symlink(filepath.Join(elsewhere, lockName), filepath.Join(tmp, "headgate-5", lockName)))
	require.NoError(t, os.Mkdir(filepath.Join(tmp, "headgate-6"), 0o700))
	require.NoError(t, syscall.Mkfifo(filepath.Join(tmp, "headgate-6", lockName+"-of-another"), 0o600))

	before, err := os.ReadDir(tmp)
	require.NoError(t, err)
	removeLeftFolders()
	after, err := os.ReadDir(tmp)
	require.NoError(t, err)
	require.NoDirExists(t, dead.path)
	require.DirExists(t, envoys.path)
	require.Len(t, after, len(before)-1)
	require.FileExists(t, filepath.Join(elsewhere, lockName))

	require.NoError(t, alive.remove())
	require.NoDirExists(t, alive.path)
}

// A second gateway beside a living one leaves the folder of that one. Once the first has been killed, it goes.
func TestRunRemovesTheFolderOfOneThatWasKilled(t *testing.T) {
	first := runGateway(t, nil, "--sample")
	folders := func() []os.DirEntry {
		found, err := os.ReadDir(first.tmp)
		require.NoError(t, err)
		return found
	}
	lock := filepath.Join(first.tmp, folders()[0].Name(), lockName)
	sameFolder := []string{"TMPDIR=" + first.tmp}
	second := runGateway(t, sameFolder, "--sample")
	require.Len(t, folders(), 2)
	require.NoError(t, first.cmd.Process.Kill())
	rig.Await(t, "the killed headgate and its Envoy have let go of their folder", func() bool {
		file, err := os.Open(lock)
		require.NoError(t, err)
		defer file.Close()
		return lockFile(file) == nil
	})
	third := runGateway(t, sameFolder, "--sample")
	require.Len(t, folders(), 2)
	for _, h := range []*tool{second, third} {
		require.NoError(t, h.cmd.Process.Signal(syscall.SIGTERM))
		require.Zero(t, <-h.status)
	}
	require.Empty(t, folders())
}
