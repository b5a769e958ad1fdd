package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A tree is a copy of the repository's files in which a change is made.
type tree struct{ dir string }

// copyTree makes the copy, or brings the one of an earlier run up to date: Go builds only what differs. What git
// ignores is left out.
func copyTree(from, to string) (tree, error) {
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = from
	out, err := list.Output()
	if err != nil {
		return tree{}, fmt.Errorf("listing the files: %w", err)
	}
	wanted := map[string]bool{}
	for _, name := range strings.Split(strings.TrimRight(string(out), "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(from, name))
		if os.IsNotExist(err) {
			continue // deleted, and git hasn't been told
		}
		if err != nil {
			return tree{}, err
		}
		info, err := os.Stat(filepath.Join(from, name))
		if err != nil {
			return tree{}, err
		}
		wanted[filepath.Join(to, name)] = true
		if err := put(filepath.Join(to, name), text, info.Mode()); err != nil {
			return tree{}, err
		}
	}
	return tree{to}, removeOthers(to, wanted)
}

// removeOthers removes the Go files that the tree no longer has.
func removeOthers(dir string, wanted map[string]bool) error {
	return filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Ext(name) == ".go" && !wanted[name] {
			return os.Remove(name)
		}
		return err
	})
}

// put writes a file unless it has that text already.
func put(name string, text []byte, mode os.FileMode) error {
	if old, err := os.ReadFile(name); err == nil && string(old) == string(text) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, text, mode)
}

func (t tree) path(file string) string { return filepath.Join(t.dir, file) }

// with makes a change, calls f, and takes the change back.
func (t tree) with(c change, text []byte, f func() error) error {
	const mode = 0o644
	if err := os.WriteFile(t.path(c.File), c.apply(text), mode); err != nil {
		return err
	}
	err := f()
	if restored := os.WriteFile(t.path(c.File), text, mode); restored != nil {
		return restored
	}
	return err
}
