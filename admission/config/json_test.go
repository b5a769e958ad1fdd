package config

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestJSONRefusals(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", `line 1, column 1: the text ends (want a value)`},
		{"limit: 5", `line 1, column 1: "l" is not JSON here (want a value)`},
		{"{\n  \"é\": 1,\n  \"ü\": x}", `line 3, column 8: "x" is not JSON here (want a value)`},
		{`{"a":1,}`, `line 1, column 8: "}" is not JSON here (want a name in '"')`},
		{`{"a":1,"a":2}`, `line 1, column 8: the name "a" is there twice in one object`},
		{`{"a":1,"\u0061":2}`, `line 1, column 8: the name "a" is there twice in one object`},
		{`{"a" 1}`, `line 1, column 6: "1" is not JSON here (want ":")`},
		{`{} {}`, `line 1, column 4: "{" is not JSON here (want the end)`},
		{"{}\x00", `line 1, column 3: "\x00" is not JSON here (want the end)`},
		{`[1,2`, `line 1, column 5: the text ends (want ",")`},
		{`01`, `line 1, column 2: "1" is not JSON here (want the end)`},
		{`+1`, `line 1, column 1: "+" is not JSON here (want a value)`},
		{`1.`, `line 1, column 3: the text ends (want a digit)`},
		{`1e`, `line 1, column 3: the text ends (want a digit)`},
		{`NaN`, `line 1, column 1: "N" is not JSON here (want a value)`},
		{`"a`, `line 1, column 3: the text ends (want '"' or a character of a string)`},
		{"\"a\nb\"", `line 1, column 3: "\n" is not JSON here (want '"' or a character of a string)`},
		{`"\x41"`, `line 1, column 3: "x" is not JSON here (want an escape)`},
		{`"\u00g0"`, `line 1, column 6: "g" is not JSON here (want a hexadecimal digit)`},
		{`"\ud800"`, `line 1, column 2: holds half of a surrogate pair`},
		{`"x\udc00"`, `line 1, column 3: holds half of a surrogate pair`},
		{`"\ud800\u0041"`, `line 1, column 2: holds half of a surrogate pair`},
		{"\"a\xff\"", `line 1, column 3: is not valid UTF-8`},
		{"\"\xed\xa0\x80\"", `line 1, column 2: is not valid UTF-8`},
		{"\xef\xbb\xbf{}", `line 1, column 1: "\xef\xbb\xbf" is not JSON here (want a value)`},
		{strings.Repeat("[", 33), `line 1, column 33: is nested deeper than 32`},
		{strings.Repeat(" ", maxJSONBytes+1), `the configuration is longer than 1048576 bytes`},
	} {
		_, err := parseJSON([]byte(c.text))
		require.EqualError(t, err, c.want, "%.40q", c.text)
	}
}

func TestJSONValues(t *testing.T) {
	v, err := parseJSON([]byte(" {\"a\": [null, true, false, -0, 1.5e+30], \"b\\n\": \"\\ud83d\\ude00\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9é\", \"\": {}} \r\n\t"))
	require.Nil(t, err)
	require.Equal(t, map[string]any{
		"a":   []any{nil, true, false, json.Number("-0"), json.Number("1.5e+30")},
		"b\n": "😀\"\\/\b\f\n\r\téé",
		"":    map[string]any{},
	}, plain(v))
	require.Equal(t, []string{"a", "b\n", ""}, []string{v.first.name, v.first.next.name, v.first.next.next.name})
	_, err = parseJSON([]byte(strings.Repeat("[", 32) + strings.Repeat("]", 32)))
	require.Nil(t, err)
}

// FuzzJSON holds the reader against encoding/json, which accepts all that this one does and the same values.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{`{"a":[1,-2.5e3,"x\u00e9\ud83d\ude00"],"b":{"c":null}}`, `[true,false]`, `"\ud800"`, `{"a":1,"a":2}`, ` 0 `, `-`, "\"\xff\""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := parseJSON(data)
		if err != nil {
			require.LessOrEqual(t, len(err.Error()), 200)
			return
		}
		require.True(t, json.Valid(data))
		d := json.NewDecoder(strings.NewReader(string(data)))
		d.UseNumber()
		var want any
		require.NoError(t, d.Decode(&want))
		require.Equal(t, want, plain(v))
	})
}

// plain is v as encoding/json has it.
func plain(v *node) any {
	switch v.kind {
	case jsonNull:
		return nil
	case jsonBool:
		return v.text == "true"
	case jsonNumber:
		return json.Number(v.text)
	case jsonString:
		return v.text
	case jsonArray:
		a := []any{}
		for e := v.first; e != nil; e = e.next {
			a = append(a, plain(e))
		}
		return a
	}
	o := map[string]any{}
	for m := v.first; m != nil; m = m.next {
		o[m.name] = plain(m)
	}
	return o
}
