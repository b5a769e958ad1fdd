package wasmbuild

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
)

func TestEditsFitThisGo(t *testing.T) {
	source, err := goCommand(".", "list", "-f", "{{.Dir}}", "runtime")
	require.NoError(t, err)
	read := func(file string) (string, error) {
		text, err := os.ReadFile(filepath.Join(source, file))
		return string(text), err
	}
	files, unfit, err := apply(edits, read)
	require.NoError(t, err)
	require.Empty(t, unfit, "Go's runtime has changed: look at what these do in %s now", source)
	for file, text := range files {
		before, err := read(file)
		require.NoError(t, err)
		require.NotEqual(t, before, text, file)
		require.Equal(t, strings.Count(before, "\n"), strings.Count(text, "\n"), "lines of %s", file)
	}
}

func TestAnEditThatDoesNotFitIsLeftOutWhole(t *testing.T) {
	sources := map[string]string{"a.go": "one\ntwo\n", "b.go": "twice\ntwice\n"}
	read := func(file string) (string, error) { return sources[file], nil }
	files, unfit, err := apply([]edit{
		{"fits", []change{{"a.go", "one\n", "1\n"}}},
		{"is there twice", []change{{"a.go", "two\n", "2\n"}, {"b.go", "twice\n", "2\n"}}},
		{"is not there", []change{{"c.go", "three\n", "3\n"}, {"a.go", "two\n", "2\n"}}},
		{"fits as well", []change{{"a.go", "two\n", "II\n"}, {"a.go", "II\n", "ii\n"}}},
	}, read)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a.go": "1\nii\n"}, files)
	var left []string
	for _, e := range unfit {
		left = append(left, e.what)
	}
	require.Equal(t, []string{"is there twice", "is not there"}, left)
}

// What the edits take out of the runtime, these packages would use.
func TestModuleUsesNothingThatIsTakenOut(t *testing.T) {
	packages, err := goCommand("../../cmd/filter", "list", "-deps", ".")
	require.NoError(t, err)
	for _, p := range []string{"plugin", "runtime/pprof", "runtime/trace"} {
		require.NotContains(t, strings.Fields(packages), p)
	}
}

// One module shows the edits at work: it prints bits, and what they took out is not in it. Built again, it is the same.
func TestEditedRuntimeWorks(t *testing.T) {
	build := func() []byte {
		out := filepath.Join(t.TempDir(), "printer.wasm")
		require.NoError(t, Module("testdata/printer", out))
		wasm, err := os.ReadFile(out)
		require.NoError(t, err)
		return wasm
	}
	wasm := build()
	require.Equal(t, wasm, build(), "the same source gives the same bytes")

	var printed bytes.Buffer
	runtime := wazero.NewRuntime(t.Context())
	defer runtime.Close(t.Context())
	wasi_snapshot_preview1.MustInstantiate(t.Context(), runtime)
	config := wazero.NewModuleConfig().WithStderr(&printed).WithStartFunctions("_initialize")
	_, err := runtime.InstantiateWithConfig(t.Context(), wasm, config)
	require.NoError(t, err)
	want := "0x3ff8000000000000 0xc000000000000000 (0x3ff8000000000000 0x0i) (0x0 0xc000000000000000i)\ntrue\n"
	require.Equal(t, want, printed.String())

	for _, function := range []string{"runtime.traceAdvance", "internal/strconv.AppendFloat", "runtime.typesEqual"} {
		require.False(t, bytes.Contains(wasm, []byte(function)), function)
	}
	require.True(t, bytes.Contains(wasm, []byte("runtime.printfloat64")), "the module has its functions' names")
}

func TestAFailedBuildSaysWhy(t *testing.T) {
	err := Module("testdata/printer", filepath.Join(t.TempDir(), "x.wasm"), "-nonsense")
	require.ErrorContains(t, err, "nonsense")
}
