package request

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const (
	jsonType  = "application/json"
	pairsType = "application/x-www-form-urlencoded"
)

// longest is the longest name that a scan finds.
var longest = strings.Repeat("x", maxScanned)

// deepJSON opens a hundred thousand brackets.
var deepJSON = strings.Repeat(`{"model":[`, 50_000)

// modelsInJSON are documents and the model that each names; "" for none.
var modelsInJSON = []struct{ name, body, want string }{
	{"alone", `{"model":"gpt-4o"}`, "gpt-4o"},
	{"first", `{"model":"gpt-4o","stream":true}`, "gpt-4o"},
	{"last", `{"n":1,"stop":null,"stream":false,"model":"gpt-4o"}`, "gpt-4o"},
	{"with whitespace", " \r\n\t{ \"model\"\t:\n\"gpt-4o\" \r\n, \"n\" : 1 } \n", "gpt-4o"},
	{"behind numbers and words", `{"a":-1.5e+3,"b":0,"c":true,"d":false ,"e":null,"model":"m"}`, "m"},
	{"behind nested values", `{"messages":[{"role":"user","content":"hi"},[],{}],"o":{"p":{"q":[1]}},"model":"m"}`, "m"},
	{"in front of nested values", `{"model":"m","messages":[{"content":"x"}]}`, "m"},
	{"not the nested one", `{"messages":[{"model":"nested"}],"o":{"model":"nested"},"model":"m"}`, "m"},
	{"only nested", `{"messages":[{"model":"nested"}],"o":{"model":"nested"}}`, ""},
	{"only in a string", `{"messages":"\"model\":\"x\"","a":"{\"model\":\"y\"}"}`, ""},
	{"brackets in nested strings", `{"a":["]}\"]}","\\"],"b":{"}":"{\\\""},"model":"m"}`, "m"},
	{"a key that is a value elsewhere", `{"a":"model","b":"x","model":"m"}`, "m"},
	{"a longer key", `{"models":"x","model2":"x","mode":"x","":"x","modelé":"x"}`, ""},
	{"a longer key, and it", `{"models":"x","mode":"y","model":"m"}`, "m"},
	{"an escaped key", `{"\u006dodel":"m"}`, "m"},
	{"a key of nothing but escapes", `{"\u006D\u006f\u0064\u0065\u006C":"m"}`, "m"},
	{"an escaped value", `{"model":"\u006d1\/\"\\\b\f\n\r\t"}`, "m1/\"\\\b\f\n\r\t"},
	{"beyond ASCII", `{"schlüssel":"ü","model":"mödèl 模型"}`, "mödèl 模型"},
	{"a surrogate pair", `{"model":"\ud83d\ude00"}`, "😀"},
	{"a lone high surrogate", `{"model":"\ud83dx"}`, "\ufffdx"},
	{"a lone high surrogate before an escape", `{"model":"\ud83d\n"}`, "\ufffd\n"},
	{"a lone high surrogate at the end", `{"model":"\ud83d"}`, "\ufffd"},
	{"a lone low surrogate", `{"model":"\ude00x"}`, "\ufffdx"},
	{"two high surrogates and a low one", `{"model":"\ud83d\ud83d\ude00"}`, "\ufffd😀"},
	{"a surrogate pair in the key", `{"\ud83d\ude00model":"x","model":"m"}`, "m"},
	{"twice", `{"model":"a","model":"b"}`, ""},
	{"twice the same", `{"model":"a","n":1,"model":"a"}`, ""},
	{"twice, once escaped", `{"model":"a","\u006dodel":"b"}`, ""},
	{"twice, first no string", `{"model":1,"model":"b"}`, ""},
	{"twice, then no string", `{"model":"a","model":null}`, ""},
	{"twice, the second cut short", `{"model":"a","model":"b`, ""},
	{"twice, the second without a value", `{"model":"a","model"`, ""},
	{"three times", `{"model":"a","model":"b","model":"c"}`, ""},
	{"twice, but for case", `{"model":"a","Model":"b"}`, ""},
	{"twice, but for case, the other way round", `{"MODEL":"b","model":"a"}`, ""},
	{"in other case", `{"Model":"b"}`, ""},
	{"a number", `{"model":4}`, ""},
	{"a word", `{"model":true}`, ""},
	{"null", `{"model":null}`, ""},
	{"an object", `{"model":{"model":"x"}}`, ""},
	{"an array", `{"model":["x"]}`, ""},
	{"an empty string", `{"model":""}`, ""},
	{"a space", `{"model":" "}`, " "},
	{"invalid UTF-8", "{\"model\":\"a\xffb\"}", ""},
	{"overlong UTF-8", "{\"model\":\"\xc1\xad\"}", ""},
	{"a surrogate in UTF-8", "{\"model\":\"\xed\xa0\x80\"}", ""},
	{"invalid UTF-8 elsewhere", "{\"a\xff\":\"\xfe\",\"model\":\"m\"}", "m"},
	{"as long as may be", `{"model":"` + longest + `"}`, longest},
	{"too long", `{"model":"` + longest + `x"}`, ""},
	{"too long in its last character", `{"model":"` + longest[1:] + `é"}`, ""},
	{"far too long", `{"model":"` + strings.Repeat(longest, 20) + `"}`, ""},
	{"a byte order mark", "\xef\xbb\xbf{\"model\":\"m\"}", "m"},
	{"half a byte order mark", "\xef\xbb{\"model\":\"m\"}", ""},
	{"UTF-16", "{\x00\"\x00m\x00o\x00d\x00e\x00l\x00\"\x00:\x00\"\x00x\x00\"\x00}\x00", ""},
	{"deep nesting", `{"a":` + deepJSON + `"x"` + strings.Repeat(`]}`, 50_000) + `,"model":"m"}`, "m"},
	{"deep nesting without end", `{"model":"m","a":` + deepJSON, "m"},
	{"an empty object", `{}`, ""},
	{"nothing", ``, ""},
	{"whitespace", " \n", ""},
	{"an array of it", `[{"model":"m"}]`, ""},
	{"a string of it", `"{\"model\":\"m\"}"`, ""},
	{"two documents", `{"model":"a"}{"model":"b"}`, "a"},
	{"the second document", `{} {"model":"b"}`, ""},
	{"cut short in the value", `{"model":"gpt`, ""},
	{"cut short in an escape", `{"model":"gpt\u00`, ""},
	{"cut short behind it", `{"model":"gpt"`, "gpt"},
	{"garbage", "\x00\x01garbage{\"model\":\"m\"}", ""},
	{"gzip", "\x1f\x8b\x08\x00{\"model\":\"m\"}", ""},
	{"a bad escape", `{"a":"\x","model":"m"}`, ""},
	{"a bad \\u", `{"a":"\u00g0","model":"m"}`, ""},
	{"a comma too many", `{"a":1,,"model":"m"}`, ""},
	{"a comma at the end", `{"model":"m",}`, "m"},
	{"no comma", `{"a":1 "model":"m"}`, ""},
	{"no colon", `{"model" "m"}`, ""},
	{"a single quote", `{'model':'m'}`, ""},
	{"a comment", `{/**/"model":"m"}`, ""},
	{"garbage behind it", `{"model":"m"]garbage`, ""},
	{"garbage behind the document", `{"model":"m"}]garbage`, "m"},
	{"a word for a number", `{"a":NaN,"b":-Infinity,"c":[NaN],"model":"m"}`, "m"},
	{"a NUL in it", `{"model":"m\u0000x"}`, ""},
	{"a NUL in another value", `{"a":"\u0000","b":["\u0000"],"model":"m"}`, "m"},
}

func TestModelInJSON(t *testing.T) {
	for _, c := range modelsInJSON {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, scan(t, jsonType, c.body, 1<<20)) })
	}
}

func TestKeyAtTheWindowsEdge(t *testing.T) {
	body := `{"a":"` + strings.Repeat("x", 100) + `","model":"gpt-4o"}`
	ends := strings.LastIndex(body, `"}`) + 1
	for window := 1; window <= len(body)+1; window++ {
		want := ""
		if window >= ends {
			want = "gpt-4o"
		}
		require.Equal(t, want, scan(t, jsonType, body, window), "window %d", window)
	}
	// A second one behind the window goes unseen. One in the window is seen once its key has ended.
	twice := `{"model":"a","model":"b"}`
	for window := range len(twice) + 1 {
		want := ""
		if window >= len(`{"model":"a"`) && window < len(`{"model":"a","model"`) {
			want = "a"
		}
		require.Equal(t, want, scan(t, jsonType, twice, window), "window %d", window)
	}
}

// standardJSON is what encoding/json says of a document; fit is false if it isn't valid. Keys that differ in case only
// count as one key, found twice. With a NUL in a key, the document names nothing.
func standardJSON(body []byte) (want string, fit bool) {
	if !json.Valid(body) {
		return "", false
	}
	d := json.NewDecoder(bytes.NewReader(body))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return "", err == nil // valid, and no object
	}
	n := 0
	for d.More() {
		name, _ := d.Token()
		raw := json.RawMessage{}
		if d.Decode(&raw) != nil {
			return "", false
		}
		if strings.Contains(name.(string), "\x00") {
			return "", true
		}
		if !strings.EqualFold(name.(string), "model") {
			continue
		}
		var v any
		n++
		_ = json.Unmarshal(raw, &v)
		s, ok := v.(string)
		if want = ""; ok && name == "model" && utf8.Valid(raw) && len(s) <= maxScanned && !strings.Contains(s, "\x00") {
			want = s
		}
	}
	if n > 1 {
		want = ""
	}
	return want, true
}

func checkJSON(t require.TestingT, body string, window int) {
	got := scan(t, jsonType, body, window)
	require.Equal(t, referenceJSON([]byte(body[:min(window, len(body))]), "model"), got, "%q", body)
	if want, fit := standardJSON([]byte(body)); fit && len(body) <= window {
		require.Equal(t, want, got, "%q", body)
	}
}

// jsonBodies are JSON, or what is left of it after some damage.
func jsonBodies() *rapid.Generator[string] {
	word := rapid.SampledFrom([]string{`"model"`, `"\u006dodel"`, `"Model"`, `"a"`, `"models"`, `""`, `"é\ud83d\ude00"`, `"\ud83d"`,
		`"\""`, `"\\"`, `"}"`, `"[{"`, "\"\xff\"", `1`, `-0.5e9`, `true`, `null`})
	value := rapid.OneOf(word, rapid.Custom(func(t *rapid.T) string {
		items := rapid.SliceOfN(word, 0, 3).Draw(t, "items")
		return "[" + strings.Join(items, ",") + "]"
	}), rapid.Custom(func(t *rapid.T) string {
		return `{"model":` + word.Draw(t, "v") + `,"b":[` + word.Draw(t, "w") + `]}`
	}))
	space := rapid.SampledFrom([]string{"", "", "", " ", "\n\t\r"})
	key := rapid.SampledFrom([]string{`"model"`, `"model"`, `"\u006d\u006fdel"`, `"MODEL"`, `"a"`, `"b"`, `"mode"`, `"models"`, `"\ud83d"`, "\"\xff\""})
	return rapid.Custom(func(t *rapid.T) string {
		var b strings.Builder
		b.WriteString(space.Draw(t, "space") + "{")
		for i := range rapid.IntRange(0, 5).Draw(t, "members") {
			if i > 0 {
				b.WriteString(",")
			}
			b.WriteString(space.Draw(t, "space") + key.Draw(t, "key") + space.Draw(t, "space") + ":" + space.Draw(t, "space") + value.Draw(t, "value") + space.Draw(t, "space"))
		}
		b.WriteString("}")
		return b.String()
	})
}

func TestJSONScannerAgreesWithStandardLibraryAndReference(t *testing.T) {
	found := 0
	checkOften(t, func(t *rapid.T) {
		body := jsonBodies().Draw(t, "body")
		if rapid.Bool().Draw(t, "damaged") {
			body = damaged(t, body, "\"\\{}[],: u0\xef\xbb\xbfd/'#;\x00")
		}
		checkJSON(t, body, rapid.SampledFrom([]int{1 << 20, 1 << 20, 7, 20}).Draw(t, "window"))
		if scanPieces(jsonType, body, 1<<20, 1) != "" {
			found++
		}
	})
	require.NotZero(t, found, "no document of the generator's names a model")
}

func FuzzJSONScan(f *testing.F) {
	for _, s := range []string{`{"model":"m"}`, `{"a":[1,{"model":"x"}],"\u006dodel":"\ud83d\ude00"}`, `{"model":"a","Model":1}`, "\xef\xbb\xbf{\"a\":1e5}", `{"a":"\ud83d\ud83d`,
		`{"a":}`, `{"a":]` + ` ,"model":"m"`, `{"model":"m","a":1;"model":"x"}`, `{"model":"m","a":[b"],"model":"x"]}`, `{"model":"m","model\u0000":"x"}`} {
		f.Add(s, 1<<20)
		f.Add(s, 9)
	}
	f.Fuzz(func(t *testing.T, body string, window int) { checkJSON(t, body, max(window, 1)) })
}
