package filter_test

import (
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/build/wasmbuild"
)

var rewriteFlag = flag.Bool("rewrite", false, "write the measured sizes of the module's parts into docs/rationale.md")

const (
	rationale   = "../docs/rationale.md"
	partsHeader = "| part of the module | KB |\n|---|---|\n"
)

// A part is a row of the table in docs/rationale.md: the functions whose names begin with one of the prefixes. In the
// module's name section each character of a name that is no letter, digit or dot is an underscore.
type part struct {
	name     string
	prefixes []string
}

const here = "github.com_headgate_headgate_"

var parts = []part{
	{"Go's runtime", []string{"runtime.", "internal_runtime_", "wasm_", "_rt0_", "gcWriteBarrier", "mem", "cmpbody"}},
	{"Go's runtime: maps", []string{"internal_runtime_maps."}},
	{"Go's runtime: numbers as text (`internal/strconv`)", []string{"internal_strconv."}},
	{"the rest of the standard library", []string{""}},
	{"`admission`: the record", []string{here + "admission."}},
	{"`admission/config`", []string{here + "admission_config."}},
	{"`admission/request`", []string{here + "admission_request."}},
	{"`admission/internal/text`", []string{here + "admission_internal_text."}},
	{"`filter`", []string{here + "filter."}},
	{"`filter/records`", []string{here + "filter_records."}},
	{"`filter/journal`", []string{here + "filter_journal."}},
	{"`filter/admin`", []string{here + "filter_admin."}},
	{"`filter/abi`, with the exports, and `cmd/filter`", []string{here + "filter_abi.", "proxy_", "main."}},
	{"the SDK's types", []string{"github.com_tetratelabs_proxy_wasm_go_sdk_"}},
}

// The rows below those of the functions.
const (
	dataPart    = "data: constants, types, and for each function its name and tables"
	piecesPart  = "data: the addresses and lengths of its pieces"
	restPart    = "imports, exports and the like"
	wholeModule = "all of `build/headgate.wasm`"
)

// partOf is the part with the longest prefix of a function's name. A comparison of structs that the compiler has made
// belongs to the struct.
func partOf(function string) string {
	function = strings.TrimPrefix(function, "type_.eq.")
	best, longest := "", -1
	for _, p := range parts {
		for _, prefix := range p.prefixes {
			if strings.HasPrefix(function, prefix) && len(prefix) > longest {
				best, longest = p.name, len(prefix)
			}
		}
	}
	return best
}

// The table in docs/rationale.md says what each part of the module costs. It may differ from what is measured by 3 % or
// 2 KB.
func TestModuleParts(t *testing.T) {
	measured := measureParts(t)
	names := make([]string, 0, len(parts)+4)
	for _, p := range parts {
		names = append(names, p.name)
	}
	names = append(names, dataPart, piecesPart, restPart, wholeModule)
	require.Len(t, measured, len(names), "each row has something in the module")
	text, err := os.ReadFile(rationale)
	require.NoError(t, err)
	before, after, found := strings.Cut(string(text), partsHeader)
	require.True(t, found, "%s has no table with the header\n%s", rationale, partsHeader)
	rows := regexp.MustCompile(`^(?:\|.*\n)*`).FindString(after)

	if *rewriteFlag {
		var table strings.Builder
		for _, name := range names {
			fmt.Fprintf(&table, "| %s | %d |\n", name, (measured[name]+500)/1000)
		}
		text := before + partsHeader + table.String() + after[len(rows):]
		require.NoError(t, os.WriteFile(rationale, []byte(text), 0o644))
		return
	}
	const remedy = "\nif the change is wanted: go test ./filter -run ModuleParts -rewrite"
	lines := strings.Split(strings.TrimSuffix(rows, "\n"), "\n")
	require.Len(t, lines, len(names), "rows of the table in %s%s", rationale, remedy)
	for i, name := range names {
		cells := strings.Split(strings.Trim(lines[i], "| "), " | ")
		require.Len(t, cells, 2, lines[i])
		require.Equal(t, name, cells[0], "a row of the table in %s%s", rationale, remedy)
		written, err := strconv.Atoi(cells[1])
		require.NoError(t, err, lines[i])
		tolerance := max(2000, measured[name]*3/100)
		require.InDelta(t, measured[name], written*1000, float64(tolerance), "bytes of: %s%s", name, remedy)
	}
}

// measureParts builds the module as `make build` does, but with the names of its functions, and returns the bytes of
// each row.
func measureParts(t *testing.T) map[string]int {
	t.Helper()
	module := buildWithNames(t)
	sections := readSections(t, module)
	names := map[int]string{}
	imported := countImports(t, sections[importSection][0])
	measured := map[string]int{wholeModule: len(module), restPart: len(module)}
	add := func(part string, bytes int) {
		measured[part] += bytes
		measured[restPart] -= bytes
	}
	for _, section := range sections[customSection] {
		r := wasmReader{section}
		if string(r.counted()) == "name" { // which the module that is shipped lacks
			readFunctionNames(r, names)
			measured[wholeModule] -= len(section)
			measured[restPart] -= len(section)
		}
	}
	code := wasmReader{sections[codeSection][0]}
	for i := range code.number() {
		before := len(code.bytes)
		code.take(code.number())
		name := names[imported+i]
		require.NotEmpty(t, name, "function %d has no name", imported+i)
		part := partOf(name)
		require.False(t, part == partOf("") && strings.Contains(name, "github.com"), "a row for %s is missing", name)
		add(part, before-len(code.bytes))
	}
	data, pieces := dataBytes(sections[dataSection][0])
	add(dataPart, data)
	add(piecesPart, pieces)
	return measured
}

// buildWithNames builds it as `make build` does, and leaves the names in. Only the last step is new to Go's cache.
func buildWithNames(t *testing.T) []byte {
	t.Helper()
	out := filepath.Join(t.TempDir(), "names.wasm")
	require.NoError(t, wasmbuild.Module("../cmd/filter", out, "-ldflags="))
	module, err := os.ReadFile(out)
	require.NoError(t, err)
	return module
}

// Ids of a module's sections, and what else its format has: WebAssembly core specification, binary format.
const (
	wasmMagicBytes = 8
	customSection  = 0
	importSection  = 2
	codeSection    = 10
	dataSection    = 11

	nameOfFunctions = 1 // a subsection of the custom section "name"
)

// A wasmReader reads one part of a module after the other. Too short a module ends the test with a panic.
type wasmReader struct{ bytes []byte }

func (r *wasmReader) take(n int) []byte {
	b := r.bytes[:n]
	r.bytes = r.bytes[n:]
	return b
}

func (r *wasmReader) number() int {
	v, n := binary.Uvarint(r.bytes)
	r.take(max(n, 1))
	return int(v)
}

func (r *wasmReader) counted() []byte { return r.take(r.number()) }

// readSections returns the contents of a module's sections by their ids.
func readSections(t *testing.T, module []byte) map[int][][]byte {
	t.Helper()
	require.Equal(t, "\x00asm", string(module[:4]))
	sections := map[int][][]byte{}
	for r := (wasmReader{module[wasmMagicBytes:]}); len(r.bytes) > 0; {
		id := int(r.take(1)[0])
		sections[id] = append(sections[id], r.counted())
	}
	for _, id := range []int{customSection, importSection, codeSection, dataSection} {
		require.NotEmpty(t, sections[id], "section %d", id)
	}
	return sections
}

// countImports counts the functions that a module imports: they have the first numbers.
func countImports(t *testing.T, section []byte) int {
	t.Helper()
	r := wasmReader{section}
	count := r.number()
	for range count {
		r.counted() // the host's module
		r.counted() // the name
		require.Zero(t, r.number(), "an import that is no function")
		r.number() // the type
	}
	return count
}

// readFunctionNames reads the names by the numbers of their functions.
func readFunctionNames(section wasmReader, names map[int]string) {
	for len(section.bytes) > 0 {
		kind := section.number()
		r := wasmReader{section.counted()}
		if kind != nameOfFunctions {
			continue
		}
		for range r.number() {
			function := r.number()
			names[function] = string(r.counted())
		}
	}
}

// dataBytes returns how much of the data section is data, and how much says where each piece of it goes.
func dataBytes(section []byte) (data, pieces int) {
	r := wasmReader{section}
	for range r.number() {
		r.number() // memory 0
		r.take(1)  // i32.const
		r.number() // the address
		r.take(1)  // end
		data += len(r.counted())
	}
	return data, len(section) - data
}
