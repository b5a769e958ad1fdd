package request

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"mime/multipart"
	"net/textproto"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const jsonType = "application/json"

// scanPieces is what a scan in pieces of the given sizes (the last one repeats) finds; "" for nothing.
func scanPieces(contentType, body string, window int, sizes ...int) string {
	var b BodyScan
	b.Start("model", contentType, window)
	for i := 0; body != ""; i++ {
		n := min(max(sizes[min(i, len(sizes)-1)], 1), len(body))
		piece := []byte(body[:n])
		over := b.Take(piece)
		for k := range piece {
			piece[k] = '#' // the piece is not kept
		}
		if body = body[n:]; over {
			break
		}
	}
	return string(b.Value())
}

// scan is what a scan finds, which is the same whole, byte by byte and in random pieces.
func scan(t require.TestingT, contentType, body string, window int) string {
	whole := scanPieces(contentType, body, window, len(body)+1)
	require.Equal(t, whole, scanPieces(contentType, body, window, 1), "byte by byte")
	rnd := rand.New(rand.NewPCG(uint64(len(body)), 5))
	for range 8 {
		sizes := make([]int, 64)
		for i := range sizes {
			sizes[i] = 1 + rnd.IntN(1+len(body)/4)
		}
		require.Equal(t, whole, scanPieces(contentType, body, window, sizes...), "in pieces of %v", sizes)
	}
	return whole
}

func TestModelInJSON(t *testing.T) {
	deep := strings.Repeat(`{"model":[`, 50_000)
	long := strings.Repeat("x", maxScanned)
	for _, c := range []struct{ name, body, want string }{
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
		{"a longer key", `{"models":"x","model2":"x","mode":"x","":"x","model\u0000":"x"}`, ""},
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
		{"as long as may be", `{"model":"` + long + `"}`, long},
		{"too long", `{"model":"` + long + `x"}`, ""},
		{"too long in its last character", `{"model":"` + long[1:] + `é"}`, ""},
		{"far too long", `{"model":"` + strings.Repeat(long, 20) + `"}`, ""},
		{"a byte order mark", "\xef\xbb\xbf{\"model\":\"m\"}", "m"},
		{"half a byte order mark", "\xef\xbb{\"model\":\"m\"}", ""},
		{"UTF-16", "{\x00\"\x00m\x00o\x00d\x00e\x00l\x00\"\x00:\x00\"\x00x\x00\"\x00}\x00", ""},
		{"deep nesting", `{"a":` + deep + `"x"` + strings.Repeat(`]}`, 50_000) + `,"model":"m"}`, "m"},
		{"deep nesting without end", `{"model":"m","a":` + deep, "m"},
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
		{"garbage behind it", `{"model":"m"]garbage`, "m"},
	} {
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
	// The second one behind the window goes unseen; in it, even in part, it doesn't, once its key has ended.
	twice := `{"model":"a","model":"b"}`
	for window := range len(twice) + 1 {
		want := ""
		if window >= len(`{"model":"a"`) && window < len(`{"model":"a","model"`) {
			want = "a"
		}
		require.Equal(t, want, scan(t, jsonType, twice, window), "window %d", window)
	}
}

// The search ends no later than its window, and tells so: the filter waits for nothing else.
func TestTakeSaysWhenTheSearchIsOver(t *testing.T) {
	for _, c := range []struct {
		name, contentType, body string
		over                    int // bytes after which the search is over; -1: never
	}{
		{"the document's end", jsonType, `{"model":"m"} trailing`, len(`{"model":"m"}`)},
		{"no document", jsonType, `hello`, 1},
		{"found, the document goes on", jsonType, `{"model":"m","a":[1,2,3`, -1},
		{"twice", jsonType, `{"model":"m","model":"n"}`, len(`{"model":"m","model"`)},
		{"the window's end", jsonType, `{"a":"` + strings.Repeat("x", 100), 64},
		{"the form's end", formType("B"), "--B\r\n\r\n\r\n--B--", len("--B\r\n\r\n\r\n--B--")},
		{"a form's window", formType("B"), strings.Repeat("x", 100), 64},
		{"a form without a boundary", "multipart/form-data", "--B", 0},
		{"a form in a URL's manner", "application/x-www-form-urlencoded", "model=x", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b BodyScan
			b.Start("model", c.contentType, 64)
			for i := range len(c.body) {
				require.Equal(t, c.over >= 0 && i+1 >= max(c.over, 1), b.Take([]byte{c.body[i]}), "after byte %d", i+1)
			}
			require.Equal(t, c.over == 0, func() bool { b.Start("model", c.contentType, 64); return b.Take(nil) }(), "an empty piece")
		})
	}
}

func TestScansFollowEachOther(t *testing.T) {
	var b BodyScan
	for i := range 3 {
		b.Start("model", jsonType, 100)
		b.Take(fmt.Appendf(nil, `{"model":"m%d","a":"\ud83d`, i))
		require.Equal(t, fmt.Sprintf("m%d", i), string(b.Value()))
		b.Start("model", formType("B"), 100)
		require.Nil(t, b.Value())
		b.Take([]byte("--B\r\nContent-Disposition: form-data; name=model\r\n\r\nf\r\n--B"))
		require.Nil(t, b.Value())
		b.Take([]byte("\r\nContent"))
		require.Equal(t, "f", string(b.Value()))
	}
	b.Start("deployment", jsonType, 100)
	b.Take([]byte(`{"model":"m","deployment":"d"}`))
	require.Equal(t, "d", string(b.Value()))
}

// referenceJSON says what a document, cut to the window, names, by the rule in plain code. The rule: the scanner
// understands the top level only.
//
//   - A value is a string; or brackets outside strings up to the one that closes the first, whatever kind they are; or
//     anything else up to whitespace, a comma or a closing brace. Control characters are allowed in strings.
//   - The document is read up to its end or up to the first byte that can't stand there by this grammar. What was named
//     before that byte counts. So an invalid document can name a model, but only one that stood in a whole string value
//     of a whole key of the top level, with everything before it well-formed by this grammar.
//   - A key counts as found at its value's last byte if that is a string, at its value's first byte otherwise, and at its
//     own last byte if it is not the first one or differs in ASCII case. Found twice, or unusable, it names nothing.
func referenceJSON(doc []byte, key string) string {
	r := &reference{doc: doc, key: key}
	r.object()
	if r.seen != 1 || !r.usable || r.value == "" || len(r.value) > maxScanned || !utf8.ValidString(r.value) {
		return ""
	}
	return r.value
}

type reference struct {
	doc    []byte
	key    string
	seen   int
	usable bool
	value  string
}

const jsonSpace = " \t\r\n"

func (r *reference) space() byte {
	r.doc = bytes.TrimLeft(r.doc, jsonSpace)
	if len(r.doc) == 0 {
		return 0
	}
	return r.doc[0]
}

func (r *reference) eat(c byte) bool {
	if r.space() != c || len(r.doc) == 0 {
		return false
	}
	r.doc = r.doc[1:]
	return true
}

func (r *reference) object() {
	for _, c := range []byte(byteOrderMark) {
		if r.space() == byteOrderMark[0] || c != byteOrderMark[0] && r.space() == c {
			r.doc = r.doc[1:]
			continue
		}
		if c != byteOrderMark[0] {
			return
		}
		break
	}
	for first := true; r.eat(map[bool]byte{true: '{', false: ','}[first]); first = false {
		name, ok := r.string()
		if !ok {
			return
		}
		same := strings.EqualFold(name, r.key) && len(name) == len(r.key)
		early := same && (name != r.key || r.seen > 0)
		if early {
			r.seen, r.usable = r.seen+1, false
		}
		if r.seen > 1 || !r.eat(':') {
			return
		}
		if !r.member(same && !early) {
			return
		}
	}
}

func (r *reference) member(wanted bool) bool {
	c := r.space()
	if len(r.doc) == 0 {
		return false
	}
	if c == '"' {
		v, ok := r.string()
		if ok && wanted {
			r.seen, r.usable, r.value = r.seen+1, true, v
		}
		return ok
	}
	if wanted {
		r.seen++
	}
	if c == '{' || c == '[' {
		return r.nested()
	}
	n := bytes.IndexAny(r.doc[1:], jsonSpace+",}")
	if n < 0 {
		return false
	}
	r.doc = r.doc[1+n:]
	return true
}

func (r *reference) nested() bool {
	depth := 0
	for len(r.doc) > 0 {
		c := r.doc[0]
		r.doc = r.doc[1:]
		switch c {
		case '"':
			for len(r.doc) > 0 && r.doc[0] != '"' {
				r.doc = r.doc[min(len(r.doc), 1+bytes.Count(r.doc[:1], []byte{'\\'})):]
			}
			if len(r.doc) == 0 {
				return false
			}
			r.doc = r.doc[1:]
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return true
			}
		}
	}
	return false
}

// string reads a string; ok is false if it isn't one, or doesn't end.
func (r *reference) string() (s string, ok bool) {
	if r.space() != '"' {
		return "", false
	}
	var units []uint16
	var out []byte
	flush := func() { out, units = append(out, string(utf16.Decode(units))...), nil }
	for d := r.doc[1:]; len(d) > 0; {
		switch {
		case d[0] == '"':
			flush()
			r.doc = d[1:]
			return string(out), true
		case d[0] != '\\':
			flush()
			out, d = append(out, d[0]), d[1:]
		case len(d) > 1 && d[1] == 'u':
			var u uint16
			if len(d) < 6 {
				return "", false
			}
			if _, err := fmt.Sscanf(string(d[2:6]), "%04x", &u); err != nil || strings.Trim(string(d[2:6]), "0123456789abcdefABCDEF") != "" {
				return "", false
			}
			units, d = append(units, u), d[6:]
		case len(d) > 1 && strings.IndexByte(`"\/bfnrt`, d[1]) >= 0:
			flush()
			out, d = append(out, "\"\\/\b\f\n\r\t"[strings.IndexByte(`"\/bfnrt`, d[1])]), d[2:]
		default:
			return "", false
		}
	}
	return "", false
}

// standardJSON is what encoding/json says of a valid document that is an object; fit is false if it isn't one, or if it
// has keys that differ in case only, which encoding/json's own readers would mix up.
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
		if !strings.EqualFold(name.(string), "model") {
			continue
		}
		var v any
		n++
		_ = json.Unmarshal(raw, &v)
		s, ok := v.(string)
		if want = ""; ok && name == "model" && utf8.Valid(raw) && len(s) <= maxScanned {
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

// checkOften is rapid.Check with more than its hundred runs.
func checkOften(t *testing.T, property func(*rapid.T)) {
	for range 30 {
		rapid.Check(t, property)
	}
}

func damaged(t *rapid.T, s string, bytes string) string {
	for range rapid.IntRange(0, 3).Draw(t, "damages") {
		at := rapid.IntRange(0, len(s)).Draw(t, "at")
		c := string(rapid.SampledFrom([]byte(bytes)).Draw(t, "byte"))
		switch rapid.IntRange(0, 2).Draw(t, "damage") {
		case 0:
			s = s[:at] + c + s[at:]
		case 1:
			s = s[:at] + s[min(at+1, len(s)):]
		default:
			s = s[:at]
		}
	}
	return s
}

func TestJSONScannerAgreesWithStandardLibraryAndReference(t *testing.T) {
	found := 0
	checkOften(t, func(t *rapid.T) {
		body := jsonBodies().Draw(t, "body")
		if rapid.Bool().Draw(t, "damaged") {
			body = damaged(t, body, "\"\\{}[],: u0\xef\xbb\xbfd")
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
		`{"a":}`, `{"a":]` + ` ,"model":"m"`} {
		f.Add(s, 1<<20)
		f.Add(s, 9)
	}
	f.Fuzz(func(t *testing.T, body string, window int) { checkJSON(t, body, max(window, 1)) })
}

func formType(boundary string) string { return "multipart/form-data; boundary=" + boundary }

// formOf writes parts as `name=value` with CR LF.
func formOf(boundary string, parts ...string) string {
	var b strings.Builder
	for _, p := range parts {
		name, value, _ := strings.Cut(p, "=")
		fmt.Fprintf(&b, "--%s\r\nContent-Disposition: form-data; name=\"%s\"\r\n\r\n%s\r\n", boundary, name, value)
	}
	return b.String() + "--" + boundary + "--\r\n"
}

func TestModelInForm(t *testing.T) {
	const file = "--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a; name=b.mp3\"\r\nContent-Type: audio/mpeg\r\n\r\n"
	part := func(head, value string) string { return "--B\r\n" + head + "\r\n\r\n" + value + "\r\n" }
	const end = "--B--\r\n"
	const model = "Content-Disposition: form-data; name=\"model\""
	m := part(model, "whisper-1")
	audio := file + "\xff\xfb\r\n\r\n--A\r\nB\r\n-\r\n--\r\n\x00\r\n"
	long := strings.Repeat("x", maxScanned)
	b := formType("B")
	for _, c := range []struct{ name, contentType, body, want string }{
		{"alone", b, m + end, "whisper-1"},
		{"without a line end at the end", b, m + "--B--", "whisper-1"},
		{"before a file", b, m + audio + end, "whisper-1"},
		{"behind a file", b, audio + m + end, "whisper-1"},
		{"behind a preamble", b, "This is a form.\r\n\r\n" + m + end, "whisper-1"},
		{"in front of an epilogue", b, m + end + m, "whisper-1"},
		{"only in the epilogue", b, audio + end + m + end, ""},
		{"a quoted boundary", `multipart/form-data; boundary="B"`, m + end, "whisper-1"},
		{"a boundary of strange characters", `multipart/form-data; boundary="'()+_,-./:=? x"`, strings.ReplaceAll(m+end, "--B", "--'()+_,-./:=? x"), "whisper-1"},
		{"other parameters and other case", `Multipart/Form-Data ; charset="a;b"; BOUNDARY=B;`, m + end, "whisper-1"},
		{"spaces behind the boundary", b, "--B \t\r\n" + model + "\r\n\r\nx\r\n--B  \r\n", "x"},
		{"a name that is not quoted", b, part("content-disposition:form-data;name=model", "x") + end, "x"},
		{"a name in other case", b, part("CONTENT-DISPOSITION: Form-Data; Name=\"model\"", "x") + end, "x"},
		{"spaces around the equals sign", b, part(`Content-Disposition: form-data ; name = "model" ;`, "x") + end, "x"},
		{"other headers", b, part("Content-Type: text/plain\r\nContent-Length: 1\r\nContent-Transfer-Encoding: 8bit\r\n"+model, "x") + end, "x"},
		{"a file name too", b, part(model+`; filename="x; name=other"`, "x") + end, "x"},
		{"a file name in UTF-8", b, part(model+`; filename="ü"; filename*=UTF-8''%C3%BC`, "x") + end, "x"},
		{"several lines", b, part(model, "a\r\nb\nc\rd\r\n") + end, "a\r\nb\nc\rd\r\n"},
		{"a boundary's beginning in the content", b, part(model, "a--B\r\n-B\r\n--\r\n--b") + end, "a--B\r\n-B\r\n--\r\n--b"},
		{"as long as may be", b, part(model, long) + end, long},
		{"too long", b, part(model, long+"x") + end, ""},
		{"far too long", b, part(model, strings.Repeat(long+"\r\n", 20)) + end, ""},
		{"too long in many lines", b, part(model, strings.Repeat("x\r\n", 2000)) + end, ""},
		{"too long by its last line end", b, part(model, long[1:]+"\r\n") + end, ""},
		{"empty", b, part(model, "") + end, ""},
		{"without a line end for its content", b, "--B\r\n" + model + "\r\n\r\n--B--", ""},
		{"invalid UTF-8", b, part(model, "\xff") + end, ""},
		{"no such part", b, part(`Content-Disposition: form-data; name="models"`, "x") + part(`Content-Disposition: form-data; filename="model"`, "x") + end, ""},
		{"no disposition", b, part("Content-Type: text/plain", "x") + end, ""},
		{"no headers", b, "--B\r\n\r\nx\r\n" + end, ""},
		{"nothing", b, "", ""},
		{"no parts", b, end, ""},
		{"JSON", b, `{"model":"m"}`, ""},
		{"JSON as a preamble", b, `{"model":"m"}` + "\r\n" + m + end, "whisper-1"},

		{"cut short behind it", b, m + file + "abc", "whisper-1"},
		{"cut short in it", b, "--B\r\n" + model + "\r\n\r\nwhis", ""},
		{"no closing boundary", b, "--B\r\n" + model + "\r\n\r\nwhisper-1\r\n", ""},
		{"cut short in the boundary behind it", b, strings.TrimSuffix(m+end, "-\r\n"), ""},

		{"twice", b, m + part(model, "x") + end, ""},
		{"twice the same", b, m + audio + m + end, ""},
		{"twice, the second cut short", b, m + "--B\r\n" + model + "\r\n\r\n", ""},
		{"line feeds only", b, strings.ReplaceAll(m+end, "\r\n", "\n"), ""},
		{"line feeds around a boundary", b, m + "--B\n" + model + "\n\nx\n--B--\n", ""},
		{"a boundary behind a line feed", b, m + file + "abc\n--B\r\n" + model + "\r\n\r\nx\r\n" + end, ""},
		{"a boundary behind a carriage return", b, m + file + "abc\r--B\r" + model + "\r\rx\r" + end, ""},
		{"the end behind a line feed", b, m + file + "abc\n--B--\r\n", ""},
		{"a line feed in the head", b, m + part("X: a\n\nb\r\n"+model, "x") + end, ""},
		{"a carriage return in the head", b, m + part("X: a\rY: b", "x") + end, ""},
		{"a boundary that goes on", b, m + file + "abc\r\n--Bx\r\n" + end, ""},
		{"the end goes on", b, m + "--B-x\r\n", ""},
		{"a space behind a header's name", b, part("Content-Disposition : form-data; name=model", "x") + end, ""},
		{"a header without a colon", b, part("Content-Disposition\r\n"+model, "x") + end, ""},
		{"a header without a name", b, part(": x\r\n"+model, "x") + end, ""},
		{"a folded header", b, m + part("Content-Disposition: form-data;\r\n name=\"x\"", "x") + end, ""},
		{"two dispositions", b, m + part("Content-Disposition: form-data; name=x\r\nContent-Disposition: form-data; name=y", "x") + end, ""},
		{"two names", b, part(`Content-Disposition: form-data; name="x"; name="model"`, "x") + end, ""},
		{"an extended name", b, m + part("Content-Disposition: form-data; name*=utf-8''%6dodel", "x") + end, ""},
		{"a name in pieces", b, m + part("Content-Disposition: form-data; name*0=mod; name*1=el", "x") + end, ""},
		{"an escaped quote", b, m + part(`Content-Disposition: form-data; filename="\""; name="model"`, "x") + end, ""},
		{"a quote without end", b, m + part(`Content-Disposition: form-data; filename="x; name="model"`, "x") + end, ""},
		{"a quote in the middle", b, part(`Content-Disposition: form-data; name="model"x`, "x") + end, ""},
		{"an empty parameter", b, part(`Content-Disposition: form-data;; name="model"`, "x") + end, ""},
		{"a parameter without a value", b, part(`Content-Disposition: form-data; x; name="model"`, "x") + end, ""},
		{"a strange space", b, m + part("Content-Disposition: form-data;\vname=model", "x") + end, ""},
		{"no form-data", b, part(`Content-Disposition: attachment; name="model"`, "x") + end, ""},
		{"encoded", b, part("Content-Transfer-Encoding: quoted-printable\r\n"+model, "gpt=2D4") + end, ""},
		{"a head too long", b, m + part("X: "+strings.Repeat("y", 5000), "x") + end, ""},
		{"a boundary's line too long", b, m + "--B" + strings.Repeat(" ", 5000) + "\r\n" + end, ""},

		{"no boundary", "multipart/form-data", m + end, ""},
		{"an empty boundary", `multipart/form-data; boundary=""`, m + end, ""},
		{"another boundary", formType("C"), m + end, ""},
		{"two boundaries", "multipart/form-data; boundary=C; boundary=B", m + end, ""},
		{"an extended boundary", "multipart/form-data; boundary*0=B", m + end, ""},
		{"too long a boundary", formType(strings.Repeat("B", 71)), strings.ReplaceAll(m+end, "--B", "--"+strings.Repeat("B", 71)), ""},
		{"as long a boundary as may be", formType(strings.Repeat("B", 70)), strings.ReplaceAll(m+end, "--B", "--"+strings.Repeat("B", 70)), "whisper-1"},
		{"another multipart type", "multipart/mixed; boundary=B", m + end, ""},
		{"a longer type", "multipart/form-data2; boundary=B", m + end, ""},
		{"as JSON", jsonType, m + end, ""},
		{"without a type", "", m + end, ""},
		{"JSON as another multipart type", "multipart/mixed; boundary=B", `{"model":"m"}`, ""},
		{"JSON as a form without a plain boundary", "multipart/form-data; boundary=B; boundary=C", `{"model":"m"}`, ""},
		{"JSON as a form in a URL's manner", "application/x-www-form-urlencoded", `{"model":"m"}&model=x`, ""},
		{"JSON as text", "text/plain", `{"model":"m"}`, "m"},
		{"JSON without a type", "", `{"model":"m"}`, "m"},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, scan(t, c.contentType, c.body, 1<<20)) })
	}
}

func TestFormAtTheWindowsEdge(t *testing.T) {
	body := formOf("B", "a=1", "model=m", "file=abc")
	whole := strings.Index(body, "m\r\n--B\r\n") + len("m\r\n--B\r\n")
	for window := 1; window <= len(body); window++ {
		want := ""
		if window >= whole {
			want = "m"
		}
		require.Equal(t, want, scan(t, formType("B"), body, window), "window %d", window)
	}
}

// standardForm reads a form with mime/multipart: the one model, "" for none or several. fit is false if it is malformed
// to mime/multipart, or has line ends that it forgives.
func standardForm(contentType, body string) (want string, fit bool) {
	_, parameters, err := mime.ParseMediaType(contentType)
	if err != nil {
		return "", false
	}
	r := multipart.NewReader(strings.NewReader(body), parameters["boundary"])
	n := 0
	for {
		p, err := r.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", false
		}
		v, err := io.ReadAll(p)
		if err != nil {
			return "", false
		}
		if p.FormName() == "model" {
			n++
			want = string(v)
		}
	}
	if n != 1 || len(want) > maxScanned || !utf8.ValidString(want) {
		want = ""
	}
	return want, true
}

// checkForm: what the scanner finds is what mime/multipart finds, if that can read the form. That the scanner finds
// nothing is always allowed, since it forgives less.
func checkForm(t require.TestingT, contentType, body string) string {
	got := scan(t, contentType, body, 1<<20)
	if want, fit := standardForm(contentType, body); fit && got != "" {
		require.Equal(t, want, got, "%q", body)
	}
	return got
}

// Forms as mime/multipart and browsers write them: found exactly.
func TestFormScannerAgreesWithStandardLibrary(t *testing.T) {
	checkOften(t, func(t *rapid.T) {
		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		if rapid.Bool().Draw(t, "own boundary") {
			_ = w.SetBoundary(rapid.StringMatching(`[a-zA-Z0-9'()+_,./:=?-]{1,70}`).Draw(t, "boundary"))
		}
		name := rapid.SampledFrom([]string{"model", "model", "file", "models", "n"})
		content := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"whisper-1", "a\r\n--", "\r\n", "--" + w.Boundary()[:1], ""}))
		models, values := 0, []string{}
		for range rapid.IntRange(0, 4).Draw(t, "parts") {
			n, v := name.Draw(t, "name"), content.Draw(t, "content")
			if strings.Contains(v, "--"+w.Boundary()) {
				v = "x"
			}
			h := textproto.MIMEHeader{"Content-Disposition": {`form-data; name="` + n + `"`}}
			if rapid.Bool().Draw(t, "file") {
				h.Set("Content-Disposition", multipart.FileContentDisposition(n, rapid.StringMatching(`[a-z;= äö.]{0,9}`).Draw(t, "file name")))
			}
			p, err := w.CreatePart(h)
			require.NoError(t, err)
			_, _ = io.WriteString(p, v)
			if n == "model" {
				models, values = models+1, append(values, v)
			}
		}
		_ = w.Close()
		want := ""
		if models == 1 && len(values[0]) <= maxScanned && utf8.ValidString(values[0]) {
			want = values[0]
		}
		require.Equal(t, want, checkForm(t, w.FormDataContentType(), b.String()), "%q", b.String())
	})
}

func TestDamagedFormsNameWhatStandardLibraryReads(t *testing.T) {
	found := 0
	checkOften(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{"model=m", "model=other", "file=a\r\n-", "n=1"}), 0, 3).Draw(t, "parts")
		body := damaged(t, formOf("B", parts...), "\r\n-B \t;\"\\=*:x")
		if checkForm(t, formType("B"), body) != "" {
			found++
		}
	})
	require.NotZero(t, found, "no form of the generator's names a model")
}

func FuzzFormScan(f *testing.F) {
	f.Add(formType("B"), formOf("B", "a=1", "model=m"))
	f.Add(`multipart/form-data; boundary="B"; x=y`, "--B\r\ncontent-disposition: form-data; name=model; filename=\"x\"\r\n\r\nm\r\n--B--")
	f.Add(formType("B"), "pre\r\n--B\r\nContent-Disposition: form-data;\r\n name=model\r\n\r\nm\r\n--B\r\n")
	f.Fuzz(func(t *testing.T, contentType, body string) { checkForm(t, contentType, body) })
}

// hostile bodies want to be searched again and again.
func hostile(n int) map[string][2]string {
	fill := func(s string) string { return strings.Repeat(s, n/len(s)+1)[:n] }
	b := strings.Repeat("-", 69) + "x"
	form := "--" + b + "\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n"
	return map[string][2]string{
		"braces":                      {jsonType, fill(`{"a":`)},
		"brackets":                    {jsonType, `{"a":` + fill(`[`)},
		"quotes":                      {jsonType, `{"a":[` + fill(`"`)},
		"backslashes":                 {jsonType, `{"a":[` + fill(`"\`)},
		"a long string":               {jsonType, `{"a":"` + fill("x")},
		"a long value":                {jsonType, `{"model":"` + fill("x")},
		"a long value of escapes":     {jsonType, `{"model":"` + fill(`\ud83d`)},
		"a long key":                  {jsonType, `{"` + fill(`model`)},
		"a long number":               {jsonType, `{"a":` + fill(`1`)},
		"many keys":                   {jsonType, `{` + fill(`"mode":0,`)},
		"whitespace":                  {jsonType, fill(` `)},
		"many boundaries' beginnings": {formType(b), fill("\r\n--" + b[:69])},
		"hyphens":                     {formType(b), fill("-")},
		"many parts":                  {formType("B"), fill("--B\r\n\r\n\r\n")},
		"many line ends":              {formType("B"), form + fill("\r\n")},
		"carriage returns":            {formType("B"), fill("\r")},
		"a long head":                 {formType("B"), "--B\r\n" + fill("X: y\r\n")},
		"a long disposition":          {formType("B"), fill("--B\r\nContent-Disposition: form-data" + strings.Repeat(";a=b", 900) + "\r\n\r\n\r\n")},
		"a long header":               {formType("B"), "--B\r\nContent-Disposition: " + fill(`;"`)},
		"a long part":                 {formType(b), form + fill("x")},
		"a long part in lines":        {formType(b), form + fill("x\r\n")},
		"one long line":               {formType("B"), fill("x")},
	}
}

// A MiB of the worst, in one piece or one byte a piece, costs some multiple of reading it once, and holds no more than a
// few values' worth of memory.
func TestHostileBodiesCostNoMoreThanTheirLength(t *testing.T) {
	const mib = 1 << 20
	run := func(contentType, body string, size int) (took time.Duration, held uint64) {
		var b BodyScan
		var before, after runtime.MemStats
		piece := []byte(body)
		runtime.GC()
		runtime.ReadMemStats(&before)
		start := time.Now()
		b.Start("model", contentType, 2*mib)
		for len(piece) > 0 {
			n := min(size, len(piece))
			if b.Take(piece[:n]) {
				break
			}
			piece = piece[n:]
		}
		took = time.Since(start)
		runtime.GC()
		runtime.ReadMemStats(&after)
		held = max(after.HeapAlloc, before.HeapAlloc) - before.HeapAlloc
		runtime.KeepAlive(&b)
		runtime.KeepAlive(body)
		return took, held
	}
	for name, h := range hostile(mib) {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{1, 7, 4096, 2 * mib} {
				took, held := run(h[0], h[1], size)
				require.Less(t, took, 2*time.Second, "pieces of %d", size)
				require.Less(t, held, uint64(96<<10), "bytes held, pieces of %d", size)
			}
		})
	}
}

// The operation bound behind it, without a clock: no scan holds more than one line and one value, whatever comes.
func TestScanHoldsOneLineAndOneValueAtMost(t *testing.T) {
	for name, h := range hostile(1 << 16) {
		var b BodyScan
		b.Start("model", h[0], 1<<20)
		for i := range len(h[1]) {
			if b.Take([]byte{h[1][i]}) {
				break
			}
			require.LessOrEqual(t, len(b.form.line), maxFormLine, name)
			require.LessOrEqual(t, len(b.value), 2*maxFormLine+2*len("\r\n"), name)
		}
	}
}

func BenchmarkBodyScan(b *testing.B) {
	bodies := hostile(1 << 16)
	bodies["a chat"] = [2]string{jsonType, `{"messages":[` + strings.Repeat(`{"role":"user","content":"Why is the \"sky\" blue? \u00e9"},`, 1000)[:60000] + `"x"],"model":"m"}`}
	bodies["a form"] = [2]string{formType("B"), formOf("B", "file="+strings.Repeat("\x00\xff\n\rabcdefgh", 5000), "model=m")}
	names := make([]string, 0, len(bodies))
	for name := range bodies {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		h := bodies[name]
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(h[1])))
			piece := []byte(h[1])
			for b.Loop() {
				var s BodyScan
				s.Start("model", h[0], 1<<20)
				s.Take(piece)
			}
		})
	}
}
