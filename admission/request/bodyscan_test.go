package request

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

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
	b.End()
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

// The search ends at the end of its window at the latest, and says so, because the filter waits for that.
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
		{"a form's end, which may not be the body's", formType("B"), "--B--\r\n", -1},
		{"text behind a form's end", formType("B"), "--B--\r\n.", len("--B--\r\n.")},
		{"a part without a name", formType("B"), "--B\r\n\r\n\r\n--B--", len("--B\r\n\r\n")},
		{"a form's window", formType("B"), strings.Repeat("x", 100), 64},
		{"a form without a boundary", "multipart/form-data", "--B", 0},
		{"pairs", pairsType, "model=x", 1},
		{"JSON that is called pairs", pairsType, `{"model":"m"}  `, -1},
		{"JSON and pairs", pairsType, `{"model":"m"}&model=x`, len(`{"model":"m"}&model=`)},
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
		require.Equal(t, "f", string(b.Value()), "of a form that may go on")
		b.End()
		require.Nil(t, b.Value(), "of a form that ends there")
	}
	b.Start("deployment", jsonType, 100)
	b.Take([]byte(`{"model":"m","deployment":"d"}`))
	require.Equal(t, "d", string(b.Value()))
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

// hostile are bodies that a careless scanner would read again and again.
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

// A MiB of the worst body costs a few times what reading it once costs, in one piece or in pieces of one byte. The scan
// keeps no more memory than a few values take.
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

// The bound behind it, without a clock: a scan keeps one line and one value at most, whatever comes.
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
