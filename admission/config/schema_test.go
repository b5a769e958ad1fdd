//go:build !wasip1

package config

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
)

func compiledSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := json.Marshal(JSONSchema())
	require.NoError(t, err)
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
	require.NoError(t, err)
	compiler := jsonschema.NewCompiler()
	require.NoError(t, compiler.AddResource("schema.json", document))
	schema, err := compiler.Compile("schema.json")
	require.NoError(t, err)
	return schema
}

// takes reports whether the schema takes a configuration that is JSON.
func takes(schema *jsonschema.Schema, config string) bool {
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(config))
	return err == nil && schema.Validate(value) == nil
}

// onlyParse match what Parse says of values that no schema of ours can refuse.
var onlyParse = []string{
	`"[^"]+" is out of range`, // a duration: its text has no order
	`(min_active|headroom\.min): 5 is out of range`,
	`is there twice|is the name of another pool|is an alias itself|repeats routes|disagrees with routes`,
	`more than max_keys`,
	`has units of its own`,
	`has no path|segment|has no limit after|has no good group|begins with no method|has '\*'`, // a pattern of routes, a path
}

func TestTheSchemaRefusesWhatParseRefuses(t *testing.T) {
	schema := compiledSchema(t)
	var bad []string
	for _, c := range configRefusals {
		bad = append(bad, c.config)
	}
	for _, c := range badConfigs {
		bad = append(bad, c.config)
	}
	used := map[string]bool{}
	for _, config := range bad {
		_, err := Parse([]byte(config))
		require.Error(t, err)
		if !takes(schema, config) {
			continue
		}
		reason := ""
		for _, pattern := range onlyParse {
			if regexp.MustCompile(pattern).MatchString(err.Error()) {
				reason = pattern
			}
		}
		require.NotEmpty(t, reason, "the schema takes %s, of which Parse says: %v", config, err)
		used[reason] = true
	}
	require.Len(t, used, len(onlyParse), "some of onlyParse are for nothing: %v", used)
}

// Every value of good configurations is replaced by others. What Parse still takes, the schema takes.
func TestTheSchemaTakesWhatParseTakes(t *testing.T) {
	schema := compiledSchema(t)
	values := []any{0, 1, 2, 1024, -1, "a", "5s", "0", "1.5h", ".5s", "x-a", "enforce", "admin", "tenant", "model", "/a/{model}/",
		"POST /a:3@b", true, false, nil, []any{}, []any{"tenant"}, []any{"a", "b"}, map[string]any{}, map[string]any{"a": 1},
		map[string]any{"header": "x-a", "unit": "s"}, map[string]any{"a": map[string]any{"limit": 1}}}
	taken := 0
	check := func(config any) {
		text, err := json.Marshal(config)
		require.NoError(t, err)
		if _, err := Parse(text); err == nil {
			taken++
			require.True(t, takes(schema, string(text)), "Parse takes %s, and the schema does not", text)
		}
	}
	good := append(slices.Clone(goodConfigs), fullConfig, `{"stage": "admin"}`, `{"stage": "admin", "pools": []}`)
	for _, config := range good {
		var root any
		require.NoError(t, json.Unmarshal([]byte(config), &root))
		check(root)
		replaceEach(root, values, func() { check(root) })
	}
	require.Greater(t, taken, 500)
}

// replaceEach puts each of the values in the place of each value in a document, and calls then each time.
func replaceEach(in any, values []any, then func()) {
	replace := func(old any, set func(any)) {
		for _, v := range values {
			set(v)
			then()
		}
		set(old)
		replaceEach(old, values, then)
	}
	switch in := in.(type) {
	case map[string]any:
		for name, old := range in {
			replace(old, func(v any) { in[name] = v })
		}
	case []any:
		for i, old := range in {
			replace(old, func(v any) { in[i] = v })
		}
	}
}
