package request

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/stretchr/testify/require"
)

// A doubtfulForm is a form that some reader reads as "expensive", or as no model, and others as "cheap".
type doubtfulForm struct{ name, contentType, body string }

// partOf writes a part with that disposition, further header lines and content.
func partOf(disposition, headers, content string) string {
	return "--BBB\r\nContent-Disposition: form-data; " + disposition + "\r\n" + headers + "\r\n" + content + "\r\n"
}

const endOfForm = "--BBB--\r\n"

// doubtfulForms are those that docs/security.md has, and their kin.
func doubtfulForms() []doubtfulForm {
	var forms formList
	forms.addCharsets()
	forms.addNames()
	forms.addHeads()
	forms.addBoundaries()
	forms.addTypes()
	return forms
}

type formList []doubtfulForm

// add adds bodies with a content type.
func (f *formList) add(name, contentType string, bodies ...string) {
	for i, body := range bodies {
		*f = append(*f, doubtfulForm{fmt.Sprintf("%s %d", name, i), contentType, body})
	}
}

// The type and the pieces of forms whose boundary is BBB.
var (
	formBBB   = formType("BBB")
	cheap     = partOf(`name="model"`, "", "cheap")
	expensive = partOf(`name="model"`, "", "expensive")
)

// utf16le encodes a text in UTF-16.
func utf16le(s string) string {
	var out []byte
	for _, u := range utf16.Encode([]rune(s)) {
		out = append(out, byte(u), byte(u>>8))
	}
	return string(out)
}

// addCharsets adds forms in other charsets than UTF-8.
func (f *formList) addCharsets() {
	for _, charset := range []string{"utf-7", "utf-16", "UTF-16LE", "utf-16be", "utf-32", "iso-8859-1", "us-ascii", "cp037", "unicode_escape", "utf-8-sig", "", `"utf-7"`, "'utf-8'"} {
		f.add("the form's charset "+charset, formBBB+"; charset="+charset, cheap+endOfForm, partOf(`name="model"`, "", "+AGU-xpensive")+endOfForm)
		f.add("the part's charset "+charset, formBBB, partOf(`name="model"`, "Content-Type: text/plain; charset="+charset+"\r\n", "cheap")+endOfForm,
			partOf(`name="model"`, "Content-Type: text/plain;charset="+charset+"\r\n", utf16le("expensive"))+endOfForm)
	}
	f.add("UTF-16 without a charset", formBBB, partOf(`name="model"`, "", utf16le("expensive"))+endOfForm)
	for _, charsets := range []string{"charset=utf-8; charset=utf-7", "charset=utf-7; charset=utf-8", "charset =utf-8", "charset= utf-8", "charset*=utf-8''utf-7", "x=y; charset=utf-8", `charset="utf\-8"`, "charset", "charset=utf-8;"} {
		f.add("charsets "+charsets, formBBB+"; "+charsets, cheap+endOfForm)
		f.add("a part's charsets "+charsets, formBBB, partOf(`name="model"`, "Content-Type: text/plain; "+charsets+"\r\n", "cheap")+endOfForm)
	}
	f.add("a charset in a part", formBBB, partOf(`name="_charset_"`, "", "utf-7")+cheap+endOfForm, cheap+partOf(`name="_charset_"`, "", "utf-8")+endOfForm)
}

// addNames adds forms whose parts have other names or dispositions.
func (f *formList) addNames() {
	for _, name := range []string{`"model "`, `" model"`, "\"model\t\"", `"Model"`, `"model[]"`, `"model[0]"`, `"model[a]"`, `"[model]"`, `"model]"`, "\"model\x00\"", "\"model\x00x\"", "\"model\x0b\"", "'model'", "\"\ufeffmodel\"",
		`"=?utf-8?B?bW9kZWw=?="`, "model(c)", "model,x", "model x", "model[]", `"mod\el"`, "\"model\x80\"", `"model%20"`, `""`, ``} {
		other := partOf("name="+name, "", "expensive")
		f.add("a part named "+name, formBBB, cheap+other+endOfForm, other+cheap+endOfForm)
	}
	for _, disposition := range []string{`x-name="model"; name="other"`, `name="other"; x-name="model"`, `name="other"; filename="a; name=model"`, `filename="a; name=model"; name="other"`, `filename="x"; name="other"`,
		`name="other; name=model"`, `name="other"; filename="a;name=model;b"`, `name="other" ; name="model"`, `name="other"; name="model"`, `name="other"; name*=utf-8''model`, `name*="model"`, `name*0="mo"; name*1="del"`,
		`name ="other"`, `name= "other"`, `  name="other"`, `name="other";`, `;name="other"`, `name="other";; filename="a"`, `name="other"x`, `name="other" name="model"`, `name=other name=model`, `name="other"; filename=a"b`,
		`name="other"; filename="a\"b"`, `name="other"; filename="\\"; name="model"`, `name="other"; filename*0="a"`, `name="other"; x=y`, `name`} {
		other := partOf(disposition, "", "expensive")
		f.add("a disposition "+disposition, formBBB, cheap+other+endOfForm, other+cheap+endOfForm)
	}
}

// addHeads adds forms whose parts have other headers.
func (f *formList) addHeads() {
	for _, file := range []string{`name="model"; filename="x"`, `name="model"; filename=""`, `name="model"; filename=x`, `name="model"; filename*=utf-8''x`, `name="model"; FileName="x"`} {
		f.add("a model in a file "+file, formBBB, partOf(file, "", "cheap")+endOfForm)
	}
	for _, head := range []string{"Content-Type: application/octet-stream", "Content-Type: application/json", "Content-Type: multipart/mixed; boundary=C", "Content-Type:", "Content-Type: text", "Content-Type: text/html", "Content-Type: text/plain\r\nContent-Type: image/png",
		"Content-Type: image/png\r\nContent-Type: text/plain", "Content-Type: text/plain;\r\n charset=utf-16le", "Content-Disposition: form-data; name=\"model\"", "Content_Disposition: form-data; name=\"other\"", "X", "X : y", "X: a\rY: b", "X: a\nY: b", "X: \xff", "X: a\x00", "X: \x7f", "X: a ", "X: \t"} {
		f.add("a head with "+head, formBBB, partOf(`name="model"`, head+"\r\n", "cheap")+endOfForm)
	}
	for _, disposition := range []string{"attachment; name=model", "form-data, name=model", "name=model", "form-data ; name=model", "form-data", ""} {
		f.add("a disposition "+disposition, formBBB, "--BBB\r\nContent-Disposition: "+disposition+"\r\n\r\ncheap\r\n"+endOfForm)
	}
	f.add("no disposition", formBBB, "--BBB\r\n\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nexpensive\r\n"+cheap+endOfForm, "--BBB\r\nContent-Type: text/plain; name=\"model\"\r\n\r\nexpensive\r\n"+cheap+endOfForm)
	f.add("a head without an end", formBBB, "--BBB\r\nContent-Disposition: form-data; name=\"model\"\r\n"+expensive+endOfForm, cheap+"--BBB\r\nX: y\r\n"+endOfForm)
}

// addBoundaries adds forms that have a boundary, a value or other text where it is unusual.
func (f *formList) addBoundaries() {
	f.add("a part behind the last boundary", formBBB, cheap+endOfForm+expensive+endOfForm, cheap+"--BBB--"+expensive, cheap+endOfForm+"\r\n"+expensive, endOfForm+cheap+endOfForm)
	f.add("text behind the last boundary", formBBB, cheap+"--BBB--x", cheap+"--BBB---\r\n", cheap+"--BBB-- \t\r\n", cheap+"--BBB--\n", cheap+"--BBB--\r\n\r\nx", cheap+"--BBB--\r\n ")
	f.add("text before the first boundary", formBBB, "x\r\n"+cheap+endOfForm, "Content-Disposition: form-data; name=\"model\"\r\n\r\nexpensive\r\n"+cheap+endOfForm, "x--BBB\r\n"+expensive[7:]+cheap+endOfForm, "BBB\r\n"+expensive[7:]+cheap+endOfForm,
		" "+cheap+endOfForm, "\n"+cheap+endOfForm, "\ufeff"+cheap+endOfForm, "-"+cheap+endOfForm)
	for _, inside := range []string{"x--BBB\r\n" + expensive[7:], "BBB", "-BBB", " --BBB\r\n" + expensive[7:], "---BBB\r\n" + expensive[7:], "x--BBB--", "\n--BBB\n" + expensive[7:], "\r--BBB--", strings.Repeat("x", maxFormLine+9) + "--BBB", strings.Repeat("x", maxFormLine-3) + "BBB"} {
		f.add("a boundary in a file", formBBB, cheap+partOf(`name="file"; filename="f"`, "", inside)+endOfForm, partOf(`name="file"; filename="f"`, "", inside)+cheap+endOfForm)
		f.add("a boundary in the value", formBBB, partOf(`name="model"`, "", "cheap"+inside)+endOfForm)
	}
	f.add("a part that is a form", formBBB, cheap+partOf(`name="x"`, "Content-Type: multipart/mixed; boundary=C\r\n", "--C--")+endOfForm,
		partOf(`name="x"`, "Content-Type: application/x-www-form-urlencoded\r\n", "model=expensive")+cheap+endOfForm)
	f.add("no last boundary", formBBB, cheap, cheap+"--BBB", cheap+"--BBB\r\n", cheap+"--BBB-", cheap+partOf(`name="x"`, "", "y"), cheap+"--BBB\r\nContent-Disposition: form-data; name=x\r\n\r\ny")
	f.add("a boundary in a head", formBBB, partOf(`name="file"; filename="BBB"`, "", "x")+cheap+endOfForm)
	f.add("a boundary with more in its line", formBBB, strings.Replace(cheap, "BBB\r", "BBB \r", 1)+endOfForm, cheap+"--BBB\t\r\n"+expensive[7:]+endOfForm, cheap+"--BBB-\r\n"+expensive[7:]+endOfForm, cheap+"--BBBx\r\n"+expensive[7:]+endOfForm)
	for _, value := range []string{"cheap\r\n", "cheap\n", "cheap\r", "\r\ncheap", "a\r\nb", "cheap\x00", "cheap\x1f", "\ufeffcheap", "modèle", "cheap\xff", "cheap\x7f", strings.Repeat("x", maxScanned+1), strings.Repeat("x", 3*maxScanned), ""} {
		f.add("a value", formBBB, partOf(`name="model"`, "", value)+endOfForm)
	}
}

// addTypes adds content types, and boundaries that are quoted in different ways.
func (f *formList) addTypes() {
	for _, contentType := range []string{"multipart/form-data; boundary=BBB;", "multipart/form-data; boundary =BBB", "multipart/form-data; boundary= BBB", "multipart/form-data;  boundary=BBB", "multipart/form-data ; boundary=BBB", "multipart/form-data; x-boundary=CCC; boundary=BBB",
		"multipart/form-data; boundary=BBB; boundary=BBB", "multipart/form-data; boundary='BBB'", "multipart/form-data; boundary=\"BBB\"x", "multipart/form-data; boundary*=utf-8''BBB", "multipart/form-data boundary=BBB", "multipart/form-data, multipart/form-data; boundary=BBB",
		"multipart/form-data; boundary=BBB,application/json", "multipart/mixed; boundary=BBB", "xmultipart/form-data; boundary=BBB", "application/json; x=multipart/form-data; boundary=BBB", "text/plain; multipart; boundary=BBB", "application/x-www-form-urlencoded; multipart/form-data; boundary=BBB"} {
		f.add("the type "+contentType, contentType, cheap+endOfForm, `{"model":"cheap"}`+"\r\n"+expensive+endOfForm)
	}
	for _, boundary := range []string{"BBB=x", "BBB'x", "BBB(x)", "BBB:x", "BBB x", "BBB,x", "BBB;x", "BBB?x", "BBB[x]", "BBB%20", "-", "---", " BBB", "BBB "} {
		for _, quote := range []string{"", `"`} {
			f.add("the boundary "+boundary, formType(quote+boundary+quote), strings.ReplaceAll(cheap+endOfForm, "BBB", boundary))
		}
	}
}

func TestDoubtfulFormsNameNothing(t *testing.T) {
	for _, c := range doubtfulForms() {
		require.Empty(t, scan(t, c.contentType, c.body, 1<<20), "%s: %q", c.name, c.body)
	}
}

// What clients send is no doubtful form: the writers of forms in Go, Python, JavaScript, Java, .NET, Ruby, Dart and curl.
func TestFormsOfClientsNameTheirModel(t *testing.T) {
	for _, c := range []doubtfulForm{
		{"curl", "multipart/form-data; boundary=------------------------d74496d66958873e", "--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a b, c=d.mp3\"\r\nContent-Type: audio/mpeg\r\n\r\n\xff\xfb\n\r\n--\r\n-\r\n--B\r\n" +
			"Content-Disposition: form-data; name=\"model\"\r\n\r\nwhisper-1\r\n--B--\r\n"},
		{"a browser", "multipart/form-data; boundary=----WebKitFormBoundary7MA4YWxkTrZu0gW", "--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"blob\"\r\nContent-Type: audio/webm;codecs=opus\r\n\r\nx\r\n--B\r\n" +
			"Content-Disposition: form-data; name=\"timestamp_granularities[]\"\r\n\r\nword\r\n--B\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nwhisper-1\r\n--B--\r\n"},
		{"httpx", "multipart/form-data; boundary=0a1b2c3d4e5f60718293a4b5c6d7e8f9", "--B\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nwhisper-1\r\n--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"ü.mp3\"\r\nContent-Type: audio/mpeg\r\n\r\nx\r\n--B--\r\n"},
		{".NET", "multipart/form-data; boundary=\"8d0f1a2b-1c2d-4e3f-9a8b-7c6d5e4f3a2b\"", "--B\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Disposition: form-data; name=model\r\n\r\nwhisper-1\r\n--B\r\n" +
			"Content-Disposition: form-data; name=file; filename=a.mp3; filename*=utf-8''a.mp3\r\n\r\nx\r\n--B--\r\n"},
		{"OkHttp", "multipart/form-data; boundary=3d9b2b3c-8f2a-4f4e-9d7e-0f3d2c1b4a5e", "--B\r\nContent-Disposition: form-data; name=\"model\"\r\nContent-Length: 9\r\n\r\nwhisper-1\r\n--B\r\nContent-Disposition: form-data; name=\"model_options\"\r\n\r\nx\r\n--B--\r\n"},
		{"Dart", "multipart/form-data; boundary=dart-http-boundary-a+b_c.d-e", "--B\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\nwhisper-1\r\n--B--\r\n"},
		{"UTF-8 by name, no line end at the end", "multipart/form-data; charset=UTF-8; boundary=0123456789", "--B\r\nContent-Disposition: form-data; name=\"model\"\r\nContent-Type: text/plain; charset=\"utf8\"\r\nContent-Transfer-Encoding: binary\r\n\r\nwhisper-1\r\n--B--"},
		{"empty lines around it", "multipart/form-data; boundary=0123456789", "\r\n\r\n--B\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nwhisper-1\r\n--B--\r\n\r\n\r\n"},
	} {
		_, boundary, _ := strings.Cut(c.contentType, "boundary=")
		body := strings.ReplaceAll(c.body, "--B", "--"+strings.Trim(boundary, `"`))
		require.Equal(t, "whisper-1", checkForm(t, c.contentType, body), c.name)
	}
}

// A body in another charset than UTF-8 may name another model to the upstream.
func TestJSONInAnotherCharsetNamesNothing(t *testing.T) {
	for contentType, want := range map[string]string{
		"application/json": "m", "application/json; charset=utf-8": "m", "application/json;charset=UTF-8": "m", `application/json; charset="utf-8"`: "m", "application/json; charset=utf8": "m",
		"application/json;": "m", "application/json; odata=verbose": "m", "application/problem+json": "m", "text/plain": "m", "": "m", "application/json; charset=utf-8; charset=UTF-8": "m",
		"application/json; charset=utf-7": "", "application/json; charset=utf-16": "", "application/json; charset=cp037": "", "application/json; charset=iso-8859-1": "", "application/json; charset=us-ascii": "",
		"application/json; charset=utf-8; charset=utf-7": "", "application/json; charset=utf-7; charset=utf-8": "", "application/json; charset =utf-7": "", "application/json; charset= utf-7": "", "application/json; Charset=utf-7": "",
		`application/json; charset="utf\-7"`: "", "application/json; charset*=utf-8''utf-7": "", "application/json charset=utf-7": "", "application/json, application/json; charset=utf-7": "", "text/json;charset=": "",
		"application/json; x=\"; charset=utf-8\"": "", "text/plain; urlencoded": "m", "application/X-WWW-Form-UrlEncoded": "m", "application/json; x=multipart": "", "Multipart/x": "",
	} {
		require.Equal(t, want, scan(t, contentType, `{"model":"m"}`, 1<<20), contentType)
	}
	require.Equal(t, "cheap", scan(t, "application/json", `{"model":"cheap","+AG0AbwBkAGUAbA-":"expensive"}`, 1<<20), "without the charset this is one key and another")
}

// Gson, Newtonsoft.Json, older JSON libraries of Ruby, and readers of YAML accept these documents and read "expensive".
func TestMoreThanJSONNamesNothing(t *testing.T) {
	for _, body := range []string{
		`{"model":"cheap",'model':"expensive"}`, `{"model":"cheap",model:"expensive"}`, `{"model":"cheap";"model":"expensive"}`, `{"model":"cheap" "model":"expensive"}`,
		`{"model":"cheap",/**/"model":"expensive"}`, `{"model":"cheap"/**/,"model":"expensive"}`, "{\"model\":\"cheap\",//\n\"model\":\"expensive\"}", "{\"model\":\"cheap\",#\n\"model\":\"expensive\"}",
		"{\"model\":\"cheap\",\v\"model\":\"expensive\"}", "{\"model\":\"cheap\",\u00a0\"model\":\"expensive\"}", `{"model":"cheap",,"model":"expensive"}`, `{"model":"cheap",? "model":"expensive"}`,
		`{"model":"cheap","a":1;"model":"expensive"}`, `{"model":"cheap","a":1/*,*/,"model":"expensive"}`, `{"model":"cheap","a":x"y","model":"expensive"}`, `{"model":"cheap","a"="b","model":"expensive"}`,
		`{"model":"cheap","a":'b","c":','model':"expensive"}`, `{"model":"cheap","a":/*"*/1,"model":"expensive"}`, `{"model":"cheap","a":new Date(1),"model":"expensive"}`,
		`{"model":"cheap","a":[/*"*/],"model":"expensive","b":"]"}`, `{"model":"cheap","a":['"'],"model":"expensive","b":"]"}`, `{"model":"cheap","a":[b"],"model":"expensive","c":["]}`,
		"{\"model\":\"cheap\",\"a\":[#\"\n],\"model\":\"expensive\",\"b\":\"]\"}", "{\"model\":\"cheap\",\"a\":[//]\n{],\"model\":\"expensive\",\"b\":[}]}", `{"model":"cheap","a":{b=>"c"},"model":"expensive"}`,
		`{"model":"cheap","b\'":"c","model":"expensive"}`, `{"model":"cheap","\x6dodel":"expensive"}`, `{"model":"cheap","\u6d":"c"}`, `{"model":"cheap","model\u0000":"expensive"}`, `{"model\u0000x":"expensive","model":"cheap"}`,
		"{\"model\x00\":\"expensive\",\"model\":\"cheap\"}", `{"model":"expensive\u0000cheap"}`, "{\"model\":\"expensive\x00cheap\"}",
	} {
		require.Empty(t, scan(t, jsonType, body, 1<<20), body)
	}
}

// Go's encoding/json takes a Kelvin sign for a k and a long s for an s.
func TestKeysThatGoTakesForTheSameNameNothing(t *testing.T) {
	named := func(body string) string {
		var b BodyScan
		b.Start("task", jsonType, 1<<20)
		b.Take([]byte(body))
		return string(b.Value())
	}
	for body, want := range map[string]string{
		`{"task":"m"}`: "m", `{"task":"m","tasks":"n"}`: "m", `{"task":"m","täsk":"n"}`: "m", `{"task":"m","taské":"n"}`: "m", `{"task":"m","x\u017f":"n"}`: "m",
		`{"task":"m","ta\u017fk":"n"}`: "", `{"taſk":"n","task":"m"}`: "", `{"task":"m","tas\u212a":"n"}`: "", `{"TAſ\u212a":"n","task":"m"}`: "", `{"ta\u017fk":"n"}`: "",
	} {
		require.Equal(t, want, named(body), body)
	}
}

// The boundary's text is looked for in every byte of a form, whatever its length, and the time stays that of reading it.
func TestHostileBoundariesCostNoMoreThanTheFormsLength(t *testing.T) {
	const mib = 1 << 20
	for name, c := range map[string]struct{ boundary, unit string }{
		"one byte over and over":     {strings.Repeat("a", 69) + "b", "a"},
		"the last byte, and another": {"b" + strings.Repeat("a", 69), "a"},
		"two bytes by turns":         {strings.Repeat("ab", 34) + "c", "ab"},
		"all but the first byte":     {"c" + strings.Repeat("ab", 34), "ab"},
		"all but the last byte":      {strings.Repeat("a", 70), strings.Repeat("a", 69) + "c"},
	} {
		body := []byte("--" + c.boundary + "\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n" + strings.Repeat(c.unit, mib/len(c.unit)))
		for _, size := range []int{1, 4096, len(body)} {
			var b BodyScan
			b.Start("model", formType(c.boundary), 2*mib)
			start := time.Now()
			for rest := body; len(rest) > 0; rest = rest[min(size, len(rest)):] {
				require.False(t, b.Take(rest[:min(size, len(rest))]), name)
			}
			require.Less(t, time.Since(start), 2*time.Second, name)
			require.LessOrEqual(t, cap(b.form.line), 2*maxFormLine, name)
		}
	}
}

func TestBoundaryAtTheEdgeOfALongLine(t *testing.T) {
	for length := maxFormLine - 80; length <= maxFormLine+80; length++ {
		body := partOf(`name="model"`, "", "m") + partOf(`name="file"`, "", strings.Repeat("x", length))
		require.Equal(t, "m", scanPieces(formType("BBB"), body+endOfForm, 1<<20, len(body)), length)
		require.Empty(t, scanPieces(formType("BBB"), strings.TrimSuffix(body, "\r\n")+endOfForm, 1<<20, len(body)), length)
	}
}
