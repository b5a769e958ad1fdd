package dependencies_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/build/dependencies"
)

func list(t *testing.T, folder string, env ...string) []dependencies.Module {
	t.Helper()
	modules, err := dependencies.List(folder, env...)
	require.NoError(t, err)
	return modules
}

func find(t *testing.T, modules []dependencies.Module, path string) dependencies.Module {
	t.Helper()
	i := slices.IndexFunc(modules, func(m dependencies.Module) bool { return m.Path == path })
	require.GreaterOrEqual(t, i, 0, "%s is not in the list", path)
	return modules[i]
}

func TestModulesHaveTheirLicences(t *testing.T) {
	modules := list(t, "../../cmd/headgate")
	for path, want := range map[string][]string{
		"std":                    {"BSD-3-Clause"},
		"github.com/spf13/cobra": {"Apache-2.0"},
		"go.yaml.in/yaml/v3":     {"Apache-2.0", "MIT"},
		"golang.org/x/net":       {"BSD-3-Clause"},
	} {
		m := find(t, modules, path)
		require.Equal(t, want, m.Licenses, path)
		require.NotEmpty(t, m.Version, path)
	}
	notices := dependencies.Notices(modules)
	require.Contains(t, notices, "go.yaml.in/yaml/v3 v")
	require.Contains(t, notices, "NOTICE\n====", "a NOTICE goes along, too")
	for _, m := range modules {
		require.NotEmpty(t, m.Texts, m.Path)
		for _, text := range m.Texts {
			require.Contains(t, notices, "\n"+strings.TrimRight(text.Text, "\n")+"\n", "%s of %s", text.Name, m.Path)
		}
	}
	for _, m := range modules {
		require.NotEqual(t, "github.com/headgate/headgate", m.Path)
	}
}

// Which modules a program has depends on its platform, and the filter has none of the tool's.
func TestTheListIsThatOfOneProgram(t *testing.T) {
	modules := list(t, "../../cmd/filter", "GOOS=wasip1", "GOARCH=wasm")
	for _, m := range modules {
		require.Contains(t, []string{"std", "github.com/tetratelabs/proxy-wasm-go-sdk"}, m.Path)
	}
	require.Len(t, modules, 2)
}

// module writes a Go module with a package that imports nothing, and a file beside it.
func module(t *testing.T, name, text string) (folder string) {
	t.Helper()
	dir := t.TempDir()
	for file, text := range map[string]string{
		"go.mod":      "module example.com/a\n\ngo 1.26\n\nrequire example.com/b v0.0.0\n\nreplace example.com/b => ./b\n",
		"main.go":     "package main\n\nimport _ \"example.com/b\"\n\nfunc main() {}\n",
		"b/go.mod":    "module example.com/b\n\ngo 1.26\n",
		"b/b.go":      "package b\n",
		"b/" + name:   text,
		"b/README.md": "nothing\n",
	} {
		path := filepath.Join(dir, file)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return dir
}

func TestAReplacedModuleIsRefused(t *testing.T) {
	_, err := dependencies.List(module(t, "LICENSE", "x"), "GOFLAGS=-mod=mod", "GOWORK=off")
	require.ErrorContains(t, err, "example.com/b is replaced in go.mod")
}

func TestTheBillOfMaterialsNamesWhatIsInTheFile(t *testing.T) {
	modules := list(t, "../../cmd/headgate")
	about := dependencies.Subject{Name: "headgate-linux-amd64", Version: "v1.2.3", SHA256: "ab", Time: time.Unix(1e9, 0)}
	text, err := dependencies.SBOM(about, modules)
	require.NoError(t, err)
	again, err := dependencies.SBOM(about, modules)
	require.NoError(t, err)
	require.Equal(t, text, again)
	var bom cdx.BOM
	require.NoError(t, cdx.NewBOMDecoder(bytes.NewReader(text), cdx.BOMFileFormatJSON).Decode(&bom))
	require.Equal(t, cdx.SpecVersion1_6, bom.SpecVersion)
	require.Equal(t, "2001-09-09T01:46:40Z", bom.Metadata.Timestamp)
	require.Equal(t, "v1.2.3", bom.Metadata.Component.Version)
	require.Equal(t, "ab", (*bom.Metadata.Component.Hashes)[0].Value)
	require.Len(t, *bom.Components, len(modules))
	for i, c := range *bom.Components {
		require.Equal(t, modules[i].Path, c.Name)
		require.Equal(t, "pkg:golang/"+modules[i].Path+"@"+modules[i].Version, c.PackageURL)
		require.NotEmpty(t, *c.Licenses)
	}
	require.Equal(t, "Apache-2.0 AND MIT", (*component(t, *bom.Components, "go.yaml.in/yaml/v3").Licenses)[0].Expression)
}

func component(t *testing.T, components []cdx.Component, name string) cdx.Component {
	t.Helper()
	i := slices.IndexFunc(components, func(c cdx.Component) bool { return c.Name == name })
	require.GreaterOrEqual(t, i, 0)
	return components[i]
}

// A binary tells its modules itself. These must be those that were listed.
func TestAModuleThatWasNotListedIsAnError(t *testing.T) {
	const tool = "../headgate"
	modules := list(t, "../../cmd/headgate")
	found, err := dependencies.InBinary(tool, append(slices.Clone(modules), dependencies.Module{Path: "example.com/a", Version: "v1"}))
	require.NoError(t, err, "build/headgate comes from `make build`")
	require.Equal(t, modules, found)
	_, err = dependencies.InBinary(tool, slices.DeleteFunc(modules, func(m dependencies.Module) bool { return m.Path == "github.com/spf13/cobra" }))
	require.ErrorContains(t, err, "headgate has modules that were not listed: map[github.com/spf13/cobra:v")
}
