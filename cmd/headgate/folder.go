package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
)

// A folder holds the files of a running Envoy. Its file named lock is locked as long as headgate or its Envoy lives,
// however they end, so that a later headgate knows which folders nobody uses any more.
type folder struct {
	path string
	lock *os.File
}

const lockName = "lock"

// folderName is the name of a folder in the system's folder for temporary files.
var folderName = regexp.MustCompile(`^headgate-[0-9]+$`)

func makeFolder() (*folder, error) {
	path, err := os.MkdirTemp("", "headgate-")
	if err != nil {
		return nil, err
	}
	f := &folder{path: path}
	// It gets its name once it is locked: nobody ever sees a lock of a living owner's that can be taken.
	made := filepath.Join(path, lockName+".new")
	f.lock, err = os.OpenFile(made, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err == nil {
		err = errors.Join(lockFile(f.lock), os.Rename(made, filepath.Join(path, lockName)))
	}
	if err != nil {
		return nil, errors.Join(err, f.remove())
	}
	return f, nil
}

// lockFile locks a file for all who have it open. It fails if someone else has locked it.
func lockFile(file *os.File) error {
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// remove removes the folder with all that is in it.
func (f *folder) remove() error {
	defer f.lock.Close()
	return os.RemoveAll(f.path)
}

// keep leaves the folder to be read, for as long as its reader wants.
func (f *folder) keep() {
	_ = os.Remove(filepath.Join(f.path, lockName))
	f.lock.Close()
}

// removeLeftFolders removes the folders of those that were killed. What it can't remove it leaves.
func removeLeftFolders() {
	in := os.TempDir()
	entries, err := os.ReadDir(in)
	if err != nil {
		return
	}
	for _, entry := range entries {
		if path := filepath.Join(in, entry.Name()); folderName.MatchString(entry.Name()) && isOwn(entry) {
			removeIfLeft(path)
		}
	}
}

// isOwn reports whether an entry is a folder, no link to one, and this user's.
func isOwn(entry fs.DirEntry) bool {
	info, err := entry.Info()
	if err != nil || !info.IsDir() {
		return false
	}
	system, isUnix := info.Sys().(*syscall.Stat_t)
	return isUnix && int(system.Uid) == os.Getuid()
}

// removeIfLeft removes the folder at path if its lock can be taken. A folder without one was kept to be read, or is no
// folder of headgate's.
func removeIfLeft(path string) {
	lock, err := os.OpenFile(filepath.Join(path, lockName), os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer lock.Close()
	if lockFile(lock) == nil {
		_ = os.RemoveAll(path)
	}
}
