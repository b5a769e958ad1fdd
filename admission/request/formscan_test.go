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
