package request

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/textproto"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

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

// The pieces of forms whose boundary is B.
const (
	fileHead  = "--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a, \u00fc b.mp3\"\r\nContent-Type: audio/mpeg\r\n\r\n"
	audioPart = fileHead + "\xff\xfb\r\n\r\n--A\r\nb\r\n-\r\n--\r\n\x00\r\n"
	modelHead = "Content-Disposition: form-data; name=\"model\""
	lastLine  = "--B--\r\n"
)

var (
	formB     = formType("B")
	modelPart = formPart(modelHead, "whisper-1")
)

// formPart is a part with some header lines.
func formPart(head, value string) string { return "--B\r\n" + head + "\r\n\r\n" + value + "\r\n" }

// modelsInForms are bodies by their content type, and the model that each names; "" for none.
var modelsInForms = []struct{ name, contentType, body, want string }{
	{"alone", formB, modelPart + lastLine, "whisper-1"},
	{"without a line end at the end", formB, modelPart + "--B--", "whisper-1"},
	{"before a file", formB, modelPart + audioPart + lastLine, "whisper-1"},
	{"behind a file", formB, audioPart + modelPart + lastLine, "whisper-1"},
	{"behind a preamble", formB, "This is a form.\r\n\r\n" + modelPart + lastLine, ""},
	{"in front of an epilogue", formB, modelPart + lastLine + modelPart, ""},
	{"only in the epilogue", formB, audioPart + lastLine + modelPart + lastLine, ""},
	{"a quoted boundary", `multipart/form-data; boundary="B"`, modelPart + lastLine, "whisper-1"},
	{"a boundary of strange characters", `multipart/form-data; boundary="'()+_,-./:=? x"`, strings.ReplaceAll(modelPart+lastLine, "--B", "--'()+_,-./:=? x"), ""},
	{"other parameters and other case", `Multipart/Form-Data; Charset="UTF-8"; BOUNDARY=B`, modelPart + lastLine, "whisper-1"},
	{"spaces behind the boundary", formB, "--B \t\r\n" + modelHead + "\r\n\r\nx\r\n--B  \r\n", ""},
	{"a name that is not quoted", formB, formPart("content-disposition:form-data;name=model", "x") + lastLine, "x"},
	{"a name in other case", formB, formPart("CONTENT-DISPOSITION: Form-Data; Name=\"model\"", "x") + lastLine, "x"},
	{"spaces around the equals sign", formB, formPart(`Content-Disposition: form-data ; name = "model" ;`, "x") + lastLine, ""},
	{"other headers", formB, formPart("Content-Type: text/plain\r\nContent-Length: 1\r\nContent-Transfer-Encoding: 8bit\r\n"+modelHead, "x") + lastLine, "x"},
	{"a file name too", formB, formPart(modelHead+`; filename="x; name=other"`, "x") + lastLine, ""},
	{"a file name in UTF-8", formB, formPart(modelHead+`; filename="ü"; filename*=UTF-8''%C3%BC`, "x") + lastLine, ""},
	{"several lines", formB, formPart(modelHead, "a\r\nb\nc\rd\r\n") + lastLine, ""},
	{"a boundary's beginning in the content", formB, formPart(modelHead, "a--b-") + lastLine, "a--b-"},
	{"as long as may be", formB, formPart(modelHead, longest) + lastLine, longest},
	{"too long", formB, formPart(modelHead, longest+"x") + lastLine, ""},
	{"far too long", formB, formPart(modelHead, strings.Repeat(longest+"\r\n", 20)) + lastLine, ""},
	{"too long in many lines", formB, formPart(modelHead, strings.Repeat("x\r\n", 2000)) + lastLine, ""},
	{"too long by its last line end", formB, formPart(modelHead, longest[1:]+"\r\n") + lastLine, ""},
	{"empty", formB, formPart(modelHead, "") + lastLine, ""},
	{"without a line end for its content", formB, "--B\r\n" + modelHead + "\r\n\r\n--B--", ""},
	{"invalid UTF-8", formB, formPart(modelHead, "\xff") + lastLine, ""},
	{"no such part", formB, formPart(`Content-Disposition: form-data; name="models"`, "x") + formPart(`Content-Disposition: form-data; filename="model"`, "x") + lastLine, ""},
	{"no disposition", formB, formPart("Content-Type: text/plain", "x") + lastLine, ""},
	{"no headers", formB, "--B\r\n\r\nx\r\n" + lastLine, ""},
	{"nothing", formB, "", ""},
	{"no parts", formB, lastLine, ""},
	{"JSON", formB, `{"model":"m"}`, ""},
	{"JSON as a preamble", formB, `{"model":"m"}` + "\r\n" + modelPart + lastLine, ""},

	{"cut short behind it", formB, modelPart + fileHead + "abc", ""},
	{"cut short in it", formB, "--B\r\n" + modelHead + "\r\n\r\nwhis", ""},
	{"no closing boundary", formB, "--B\r\n" + modelHead + "\r\n\r\nwhisper-1\r\n", ""},
	{"cut short in the boundary behind it", formB, strings.TrimSuffix(modelPart+lastLine, "-\r\n"), ""},

	{"twice", formB, modelPart + formPart(modelHead, "x") + lastLine, ""},
	{"twice the same", formB, modelPart + audioPart + modelPart + lastLine, ""},
	{"twice, the second cut short", formB, modelPart + "--B\r\n" + modelHead + "\r\n\r\n", ""},
	{"line feeds only", formB, strings.ReplaceAll(modelPart+lastLine, "\r\n", "\n"), ""},
	{"line feeds around a boundary", formB, modelPart + "--B\n" + modelHead + "\n\nx\n--B--\n", ""},
	{"a boundary behind a line feed", formB, modelPart + fileHead + "abc\n--B\r\n" + modelHead + "\r\n\r\nx\r\n" + lastLine, ""},
	{"a boundary behind a carriage return", formB, modelPart + fileHead + "abc\r--B\r" + modelHead + "\r\rx\r" + lastLine, ""},
	{"the end behind a line feed", formB, modelPart + fileHead + "abc\n--B--\r\n", ""},
	{"a line feed in the head", formB, modelPart + formPart("X: a\n\nb\r\n"+modelHead, "x") + lastLine, ""},
	{"a carriage return in the head", formB, modelPart + formPart("X: a\rY: b", "x") + lastLine, ""},
	{"a boundary that goes on", formB, modelPart + fileHead + "abc\r\n--Bx\r\n" + lastLine, ""},
	{"the end goes on", formB, modelPart + "--B-x\r\n", ""},
	{"a space behind a header's name", formB, formPart("Content-Disposition : form-data; name=model", "x") + lastLine, ""},
	{"a header without a colon", formB, formPart("Content-Disposition\r\n"+modelHead, "x") + lastLine, ""},
	{"a header without a name", formB, formPart(": x\r\n"+modelHead, "x") + lastLine, ""},
	{"a folded header", formB, modelPart + formPart("Content-Disposition: form-data;\r\n name=\"x\"", "x") + lastLine, ""},
	{"two dispositions", formB, modelPart + formPart("Content-Disposition: form-data; name=x\r\nContent-Disposition: form-data; name=y", "x") + lastLine, ""},
	{"two names", formB, formPart(`Content-Disposition: form-data; name="x"; name="model"`, "x") + lastLine, ""},
	{"an extended name", formB, modelPart + formPart("Content-Disposition: form-data; name*=utf-8''%6dodel", "x") + lastLine, ""},
	{"a name in pieces", formB, modelPart + formPart("Content-Disposition: form-data; name*0=mod; name*1=el", "x") + lastLine, ""},
	{"an escaped quote", formB, modelPart + formPart(`Content-Disposition: form-data; filename="\""; name="model"`, "x") + lastLine, ""},
	{"a quote without end", formB, modelPart + formPart(`Content-Disposition: form-data; filename="x; name="model"`, "x") + lastLine, ""},
	{"a quote in the middle", formB, formPart(`Content-Disposition: form-data; name="model"x`, "x") + lastLine, ""},
	{"an empty parameter", formB, formPart(`Content-Disposition: form-data;; name="model"`, "x") + lastLine, ""},
	{"a parameter without a value", formB, formPart(`Content-Disposition: form-data; x; name="model"`, "x") + lastLine, ""},
	{"a strange space", formB, modelPart + formPart("Content-Disposition: form-data;\vname=model", "x") + lastLine, ""},
	{"no form-data", formB, formPart(`Content-Disposition: attachment; name="model"`, "x") + lastLine, ""},
	{"encoded", formB, formPart("Content-Transfer-Encoding: quoted-printable\r\n"+modelHead, "gpt=2D4") + lastLine, ""},
	{"a head too long", formB, modelPart + formPart("X: "+strings.Repeat("y", 5000), "x") + lastLine, ""},
	{"a boundary's line too long", formB, modelPart + "--B" + strings.Repeat(" ", 5000) + "\r\n" + lastLine, ""},

	{"no boundary", "multipart/form-data", modelPart + lastLine, ""},
	{"an empty boundary", `multipart/form-data; boundary=""`, modelPart + lastLine, ""},
	{"another boundary", formType("C"), modelPart + lastLine, ""},
	{"two boundaries", "multipart/form-data; boundary=C; boundary=B", modelPart + lastLine, ""},
	{"an extended boundary", "multipart/form-data; boundary*0=B", modelPart + lastLine, ""},
	{"too long a boundary", formType(strings.Repeat("B", 71)), strings.ReplaceAll(modelPart+lastLine, "--B", "--"+strings.Repeat("B", 71)), ""},
	{"as long a boundary as may be", formType(strings.Repeat("B", 70)), strings.ReplaceAll(modelPart+lastLine, "--B", "--"+strings.Repeat("B", 70)), "whisper-1"},
	{"another multipart type", "multipart/mixed; boundary=B", modelPart + lastLine, ""},
	{"a longer type", "multipart/form-data2; boundary=B", modelPart + lastLine, ""},
	{"as JSON", jsonType, modelPart + lastLine, ""},
	{"without a type", "", modelPart + lastLine, ""},
	{"JSON as another multipart type", "multipart/mixed; boundary=B", `{"model":"m"}`, ""},
	{"JSON as a form without a plain boundary", "multipart/form-data; boundary=B; boundary=C", `{"model":"m"}`, ""},
	{"pairs", pairsType, `model=m`, ""},
	{"JSON that is called pairs", pairsType, ` {"a":"c=d","messages":["a & b"], "model":"m"} `, "m"},
	{"JSON that is called pairs, without a model", pairsType, `{"messages":[]}`, ""},
	{"JSON that is called pairs, with two models", pairsType, `{"model":"m","model":"n"}`, ""},
	{"JSON that is called pairs, in another charset", pairsType + "; charset=utf-16", `{"model":"m"}`, ""},
	{"JSON and pairs", pairsType, `{"model":"m"}&model=x`, ""},
	{"JSON and pairs, separated by a semicolon", pairsType, `{"model":"m"};model=x`, ""},
	{"JSON with pairs in it", pairsType, `{"model":"m","a":"&model=x&"}`, ""},
	{"pairs before JSON", pairsType, `model=x&{"model":"m"}`, ""},
	{"JSON as text", "text/plain", `{"model":"m"}`, "m"},
	{"JSON without a type", "", `{"model":"m"}`, "m"},
}

func TestModelInForm(t *testing.T) {
	for _, c := range modelsInForms {
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

// printable are the bytes of a form's value that is usable.
const printable = "\t !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~"

// Forms as mime/multipart and browsers write them: found exactly.
func TestFormScannerAgreesWithStandardLibrary(t *testing.T) {
	checkOften(t, func(t *rapid.T) {
		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		if rapid.Bool().Draw(t, "own boundary") {
			_ = w.SetBoundary(rapid.StringMatching(`[a-zA-Z0-9+_.-]{25,69}[0-9]`).Draw(t, "boundary"))
		}
		name := rapid.SampledFrom([]string{"model", "model", "file", "models", "n"})
		content := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"whisper-1", "a\r\n--", "\r\n", "--" + w.Boundary()[:20], ""}))
		models, files, values := 0, 0, []string{}
		for range rapid.IntRange(0, 4).Draw(t, "parts") {
			n, v := name.Draw(t, "name"), content.Draw(t, "content")
			h := textproto.MIMEHeader{"Content-Disposition": {`form-data; name="` + n + `"`}}
			if rapid.Bool().Draw(t, "file") {
				h.Set("Content-Disposition", multipart.FileContentDisposition(n, rapid.StringMatching(`[a-z= äö.]{0,9}`).Draw(t, "file name")))
				if n == "model" {
					files++
				}
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
		if models == 1 && files == 0 && strings.Trim(values[0], printable) == "" {
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
	for _, c := range doubtfulForms() {
		f.Add(c.contentType, c.body)
	}
	f.Add(formType("B"), formOf("B", "a=1", "model=m"))
	f.Add(`multipart/form-data; boundary="B"; x=y`, "--B\r\ncontent-disposition: form-data; name=model; filename=\"x\"\r\n\r\nm\r\n--B--")
	f.Add(formType("B"), "pre\r\n--B\r\nContent-Disposition: form-data;\r\n name=model\r\n\r\nm\r\n--B\r\n")
	f.Fuzz(func(t *testing.T, contentType, body string) { checkForm(t, contentType, body) })
}
