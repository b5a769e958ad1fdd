package rig

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/headgate/headgate/build/wasmbuild"
)

// NewWithModule is New with another module than the one under test.
func NewWithModule(t testing.TB, e *Envoy, module string, s Setup) *Env {
	t.Helper()
	env := prepareEnv(t, e, s)
	env.module = module
	env.apply(t)
	return env
}

// Upgrade replaces the module of the running listener and nothing else. Other bytes under the same vm_id mean new VMs
// with the shared data of the old ones.
func (e *Env) Upgrade(t testing.TB, module string) error {
	t.Helper()
	e.module = module
	return e.SetListener(e.listener(t, e.setup))
}

// NextModule is a copy of the module under test that does the same and has other bytes: one more custom section.
func NextModule(t testing.TB, name string) string {
	t.Helper()
	path, err := WasmPath()
	if err != nil {
		t.Fatal(err)
	}
	module, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const customSection = 0
	section := append([]byte{byte(len(name))}, name...)
	module = append(append(module, customSection, byte(len(section))), section...)
	next := filepath.Join(t.TempDir(), name+".wasm")
	if err := os.WriteFile(next, module, 0o600); err != nil {
		t.Fatal(err)
	}
	return next
}

// BuildModule builds the filter with a build tag, otherwise as `make build` does, into the test's folder.
func BuildModule(t testing.TB, tag string) string {
	t.Helper()
	root, err := RepositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), tag+".wasm")
	if err := wasmbuild.Module(filepath.Join(root, "cmd", "filter"), out, "-tags", tag); err != nil {
		t.Fatal(err)
	}
	return out
}
