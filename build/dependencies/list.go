package dependencies

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A Module is a Go module that a program has packages of.
type Module struct {
	Path     string
	Version  string
	Sum      string   // of go.sum
	Licenses []string // their SPDX identifiers, sorted
	Texts    []Text
}

// A Text is a file about the rights to a module, named by its path in the module.
type Text struct {
	Name string
	Text string
}

// standardLibrary is the path that purls have for what comes with Go.
const standardLibrary = "std"

// List returns the modules whose packages are in the program of a folder, sorted by path, the standard library among
// them. env, such as GOOS=linux, is added to Go's environment. The program's own module is not among them.
func List(folder string, env ...string) ([]Module, error) {
	packages, err := listPackages(folder, env)
	if err != nil {
		return nil, err
	}
	standard, err := standardModule(folder)
	if err != nil {
		return nil, err
	}
	found := map[string]*Module{standardLibrary: standard}
	for _, p := range packages {
		if p.Module == nil || p.Module.Main {
			continue
		}
		m := found[p.Module.Path]
		if m == nil {
			m = &Module{Path: p.Module.Path, Version: p.Module.Version, Sum: p.Module.Sum}
			found[m.Path] = m
		}
		if err := m.addTexts(p.Module.Dir, p.Dir); err != nil {
			return nil, err
		}
	}
	modules := []Module{}
	for _, m := range found {
		if err := m.identify(); err != nil {
			return nil, err
		}
		modules = append(modules, *m)
	}
	slices.SortFunc(modules, func(a, b Module) int { return strings.Compare(a.Path, b.Path) })
	return modules, nil
}

// A goPackage is what `go list` says of a package.
type goPackage struct {
	Dir    string
	Module *struct {
		Path, Version, Sum, Dir string
		Main                    bool
		Replace                 *struct{}
	}
}

func listPackages(folder string, env []string) (packages []goPackage, err error) {
	cmd := exec.Command("go", "list", "-deps", "-json=Dir,Module", ".")
	cmd.Dir, cmd.Env = folder, append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the packages of %s: %w\n%s", folder, err, stderr.Bytes())
	}
	decoder := json.NewDecoder(bytes.NewReader(out))
	for {
		var p goPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, err
		}
		if p.Module != nil && p.Module.Replace != nil {
			return nil, fmt.Errorf("%s is replaced in go.mod: a release takes modules as they are", p.Module.Path)
		}
		packages = append(packages, p)
	}
}

// standardModule is Go itself, the one that builds the folder.
func standardModule(folder string) (*Module, error) {
	cmd := exec.Command("go", "env", "GOROOT", "GOVERSION")
	cmd.Dir = folder
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	root, version, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	m := &Module{Path: standardLibrary, Version: strings.TrimPrefix(version, "go")}
	if err := m.addTexts(root, root); err != nil {
		return nil, err
	}
	return m, nil
}

// InBinary returns those of the modules that a binary says it has. A module that it has and the list lacks is an error.
func InBinary(binary string, modules []Module) ([]Module, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	has := map[string]string{standardLibrary: strings.TrimPrefix(info.GoVersion, "go")}
	for _, m := range info.Deps {
		has[m.Path] = m.Version
	}
	found := []Module{}
	for _, m := range modules {
		if has[m.Path] == m.Version {
			found = append(found, m)
			delete(has, m.Path)
		}
	}
	if len(has) > 0 {
		return nil, fmt.Errorf("%s has modules that were not listed: %v", filepath.Base(binary), has)
	}
	return found, nil
}

// Union is the modules of all lists, each once, sorted by path.
func Union(lists ...[]Module) (all []Module) {
	for _, m := range slices.Concat(lists...) {
		if !slices.ContainsFunc(all, func(k Module) bool { return k.Path == m.Path && k.Version == m.Version }) {
			all = append(all, m)
		}
	}
	slices.SortFunc(all, func(a, b Module) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Version, b.Version))
	})
	return all
}
