package request

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/admission/config"
)

func routesOf(t testing.TB, patterns ...string) []config.Route {
	t.Helper()
	routes := make([]config.Route, len(patterns))
	for i := range patterns {
		var err error
		routes[i], err = config.ParseRoute(patterns[i])
		require.NoError(t, err, patterns[i])
	}
	return routes
}

// Routes, spellings of the first one's path, and paths of no route.
var (
	someRoutes = []string{"POST /chat/completions:1", "POST /messages:1@msg", "POST /messages/batches:1@msg", "/embeddings:2", "POST /responses"}

	spellings = []string{
		"/v1/chat/completions", "/v1/chat/completions/", "/v1/chat/completions//", "/v1//chat/completions", "/v1/chat//completions", "//chat/completions", "/chat/completions",
		"/openai/deployments/x/chat/completions", "/v1/chat/completions?x=1", "/v1/chat/completions/?x=/y", "/v1/chat/completions?", "/v1/./chat/completions", "/v1/chat/./completions",
		"/v1/chat/x/../completions", "/v1/chat/completions/.", "/v1/x/../chat/completions", "/v1/ch%61t/completions", "/v1/chat/%63ompletions", "/v1/chat%2Fcompletions", "/v1/chat%2fcompletions",
		"/v1/chat/%2e/completions", "/v1/chat/completions%2F", "/v1/chat/completions?x=%2F",
	}
	others = [][2]string{
		{"POST", "/v1/chat/completions/123"}, {"GET", "/v1/chat/completions"}, {"DELETE", "/v1/chat/completions"}, {"POST", "/v1/completions"}, {"POST", "/v1/xchat/completions"},
		{"POST", "/v1/chat/completionsx"}, {"POST", "/v1/chat"}, {"POST", "/"}, {"GET", "/v1/models"}, {"POST", "/v1/messages/batches/7"}, {"POST", "/v1/x?p=/chat/completions"}, {"POST", "/v1/embeddings/4"},
	}
)

func TestCase_O20_EverySpellingOfThePath(t *testing.T) {
	routes := routesOf(t, someRoutes...)
	more := []string{
		"/V1/Chat/Completions", "/v1/chat/completions;a=b", "/v1/chat;x/completions", "/v1/chat/completions%3Ba", "/v1/chat/..;/chat/completions", `/v1/chat\completions`, "/v1/chat%5Ccompletions",
		"/v1/chat/completions#x", "/v1/chat/%2E%2e/chat/completions", "/v1/x%2F..%2Fchat/completions", "/../chat/completions", "/%63%68%61%74/%63ompletions/%2e/", "/v1/chat/;a/completions", "chat/completions",
		"http://host/v1/chat/completions", "/v1/%2E%2E/%2e%2e/%2e%2e/chat/completions", `\chat\completions\`, "/v1/chat/completions/x/..", "/v1/chat/completions/x/y/../..",
	}
	for _, p := range append(more, spellings...) {
		r, ok := MatchRoute(routes, "POST", p)
		require.True(t, ok, p)
		require.Same(t, &routes[0], r, p)
		r, ok = MatchRoute(routes, "post", p)
		require.True(t, ok, p)
		require.Same(t, &routes[0], r, p)
	}
	for _, o := range append(others, [2]string{"POST", "/v1/chat/completions/.."}, [2]string{"POST", "/v1/chat%252Fcompletions"}, [2]string{"POST", "/v1/chat%2/completions"}, [2]string{"POST", ""}, [2]string{"POST", "?"}, [2]string{"", "/chat/completions"}) {
		r, ok := MatchRoute(routes, o[0], o[1])
		require.False(t, ok, "%v", o)
		require.Nil(t, r)
	}
}

func TestRouteFirstMatchWins(t *testing.T) {
	routes := routesOf(t, "POST /messages/batches", "POST /batches", "/*", "/never")
	for path, want := range map[string]int{"/v1/messages/batches": 0, "/v1/batches": 1, "/never": 2, "/messages%2Fbatches": 0} {
		r, ok := MatchRoute(routes, "POST", path)
		require.True(t, ok)
		require.Same(t, &routes[want], r, path)
	}
	r, ok := MatchRoute(nil, "GET", "/anything")
	require.True(t, ok)
	require.Nil(t, r)
}

// No spelling escapes a pattern with a star, even if the upstream takes %2F, a backslash or a semicolon as part of a
// name.
func TestRouteWildcards(t *testing.T) {
	routes := routesOf(t, "POST /models/*:streamGenerateContent", "/a/x*y*z/b")
	for _, p := range []string{
		"/v1beta/models/gemini:streamGenerateContent", "/models/:streamGenerateContent", "/models/a:b:streamGenerateContent?alt=sse", "/models/a%2Fb:streamGenerateContent", "/models/a;b:streamGenerateContent",
		`/models/a\b:streamGenerateContent`, "/models/a%3Bb:streamGenerateContent", "/models/a%5Cb:streamGenerateContent", `/models%2Fa;b:streamGenerateContent`, `/models\a%2Fb:streamGenerateContent`,
		"/models/a%3AstreamGenerateContent", "/models/%:streamGenerateContent", "/models/*:streamGenerateContent", "/models/é:STREAMgenerateContent;x",
		"/a/xyz/b", "/a/x1y2z/b", "/a/xyyzzyz/b", "/a/XYZ/B",
	} {
		_, ok := MatchRoute(routes, "POST", p)
		require.True(t, ok, p)
	}
	for _, p := range []string{"/models/gemini:generateContent", "/models/a/b:streamGenerateContent", "/models/streamGenerateContent", "/a/xz/b", "/a/xyzz1/b", "/a/x/y/z/b"} {
		_, ok := MatchRoute(routes, "POST", p)
		require.False(t, ok, p)
	}
}

// The work for each byte is bounded: a hostile path of 64 KiB costs what its length says, not its square.
func TestRouteHostilePaths(t *testing.T) {
	routes := routesOf(t, "POST /models/*a*b*c*:streamGenerateContent", "POST /chat/completions")
	for _, unit := range []string{"/", "/a", "/..", "/.", "a", "%61", "%2F", "%2e%2e/", "a*", ":s", ";", `\`, "%", "%5C;%2F..", "/a/../", "abc"} {
		path := "/models/" + strings.Repeat(unit, 65536/len(unit))
		start := time.Now()
		MatchRoute(routes, "POST", path)
		PathValue("/deployments/", "/x", path)
		require.Less(t, time.Since(start), time.Second, unit)
	}
}

func TestRouteAllocatesNothing(t *testing.T) {
	routes := routesOf(t, someRoutes...)
	for _, p := range append([]string{"/v1/chat/completions/9", strings.Repeat("/..%2F;", 9000)}, spellings...) {
		require.Zero(t, testing.AllocsPerRun(10, func() { MatchRoute(routes, "POST", p) }), "%.40s", p)
	}
}

func BenchmarkMatchRoute(b *testing.B) {
	routes := routesOf(b, someRoutes...)
	for name, path := range map[string]string{
		"First": "/v1/chat/completions", "Last": "/openai/v1/responses", "None": "/v1/files/file-1234567890/content?x=1", "Encoded": "/v1/ch%61t%2Fcompletions;a",
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				MatchRoute(routes, "POST", path)
			}
		})
	}
}

func TestPathValue(t *testing.T) {
	for _, c := range []struct{ prefix, suffix, path, want string }{
		{"/deployments/", "/", "/openai/deployments/gpt-4/chat/completions", "gpt-4"},
		{"/deployments/", "/", "/deployments/gpt-4", "gpt-4"},
		{"/deployments/", "", "/deployments/gpt-4/?x=/deployments/y", "gpt-4"},
		{"/deployments/", "/", "/deployments/a/deployments/b", "a"},
		{"/deployments/", "/", "/Deployments/GPT-4/x", "GPT-4"},
		{"/deployments/", "/", "/x/../deployments//./gpt%2d4;v=1/x", "gpt-4"},
		{"/deployments/", "/", "/deployments%2Fgpt-4/x", "gpt-4"},
		{"/deployments/", "/", "/deployments/x%2F..%2Fgpt-4/x", "gpt-4"},
		{"/deployments/", "/chat", "/deployments/meta%2Fllama/chat", "meta/llama"},
		{"/deployments/", "/", "/deployments/meta%2Fllama/chat", "meta/llama"},
		{"/deployments/", "/", "/deployments/meta%5cllama;v=1/chat", `meta\llama`},
		{"/deployments/", "/", "/deployments/x%2F%2e%2e%2Fgpt-4/x", "gpt-4"},
		{"/deployments/", "/chat", "/deployments/gpt-4%2Fchat", "gpt-4"},
		{"/deployments/", "/", "/deployments%2Fmeta%2Fllama/chat", "meta"},
		{"/model/", "/", "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Ainference-profile%2Fus.claude/invoke", "arn:aws:bedrock:us-east-1:1:inference-profile/us.claude"},
		{"/model/", "/", "/model/arn:aws:bedrock:us-east-1:1:inference-profile%2fus.claude/invoke", "arn:aws:bedrock:us-east-1:1:inference-profile/us.claude"},
		{"/deployments/", "/chat", "/deployments/a/files/deployments/b/chat", "b"},
		{"/a/b/", "/c/d", "/a/a/b/m/c/d", "m"},
		{"/a/b/", "/c/d", "/a/b/m/c", ""},
		{"/models/", ":generate", "/v1/models/gemini:generate", "gemini"},
		{"/models/", ":generate", "/v1/models/:generate", ""},
		{"/models/", ":generate", "/v1/models/gemini:other", ""},
		{"/models/m-", "", "/v1/models/m-7", "7"},
		{"/models/ab", "bc", "/models/abc", ""},
		{"/", "", "/m/x", "m"},
		{"/deployments/", "/", "/deployments/", ""},
		{"/deployments/", "/", "/xdeployments/a", ""},
		{"/deployments/", "/", "", ""},
	} {
		got, ok := PathValue(c.prefix, c.suffix, c.path)
		require.Equal(t, c.want, got, "%v", c)
		require.Equal(t, c.want != "", ok, "%v", c)
	}
}

// fuzzPatterns covers plain segments, several of them, and stars.
var fuzzPatterns = []string{"POST /chat/completions", "/a/*/b", "/x*y*z", "PUT /*:go", "/models/*", "/é/b"}

func FuzzMatchRoute(f *testing.F) {
	for _, p := range append([]string{"/a/%2F/b", `/x1y\2z;p`, "/é/b", "/é%2Fb", "/%C3%A9/b", "/a//b", "/x%3By;z", "/..;/x:go", "/a/%2e./b", "/x%0ay%80z.json", "/a/%20/b%00", "/%20/models/%7f", "/..%3b/é%20/b\xa0"}, spellings...) {
		f.Add("POST", p)
	}
	routes := routesOf(f, fuzzPatterns...)
	f.Fuzz(func(t *testing.T, method, path string) { requireSameRoute(t, routes, method, path) })
}

func TestRouteMatchesReference(t *testing.T) {
	routes := routesOf(t, fuzzPatterns...)
	pieces := []string{"/", "/", "/", "chat", "completions", "a", "b", "x", "y", "z", "models", ":go", "..", ".", "%2e", "%2F", "%2f", "%5C", `\`, ";", "%3b", "%", "%61", "?", "#", "é", "%C3%A9", "Chat", "*", "%20", "%0a", "%80", "\xa0", "\t", ".json"}
	rapid.Check(t, func(t *rapid.T) {
		path := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 14).Draw(t, "path"), "")
		method := rapid.SampledFrom([]string{"POST", "PUT", "get", "post"}).Draw(t, "method")
		requireSameRoute(t, routes, method, path)
	})
}

func requireSameRoute(t require.TestingT, routes []config.Route, method, path string) {
	r, ok := MatchRoute(routes, method, path)
	want := referenceMatch(routes, method, path)
	require.Equal(t, want != nil, ok, "%s %q", method, path)
	require.Equal(t, want, r, "%s %q", method, path)
}

// referenceMatch is the simple matcher: it normalises each of the 32 readings of the path as a whole, and tries each
// route on each.
func referenceMatch(routes []config.Route, method, path string) *config.Route {
	if i := strings.IndexAny(path, "?#"); i >= 0 {
		path = path[:i]
	}
	for i, r := range routes {
		if r.Method != "" && referenceLower(r.Method) != referenceLower(method) {
			continue
		}
		for bits := range reading(32) {
			if referenceTail(r.Segments, referenceSegments(path, bits)) {
				return &routes[i]
			}
		}
	}
	return nil
}

// referenceSegments normalises a path: it marks what separates and what ends a segment, splits, cuts, decodes, and
// resolves dots.
func referenceSegments(path string, bits reading) (out []string) {
	has := func(bit reading) bool { return bits&bit != 0 }
	const separator, end = '\x00', '\x01'
	var marked []rune // code points above 0xFF stand for marks, below for bytes
	for i := 0; i < len(path); i++ {
		c, escaped := path[i], false
		if c == '%' && i+2 < len(path) && strings.ContainsRune("0123456789abcdefABCDEF", rune(path[i+1])) && strings.ContainsRune("0123456789abcdefABCDEF", rune(path[i+2])) {
			c, escaped = unhex(path[i+1])<<4|unhex(path[i+2]), true
			i += 2
		}
		separates := !escaped || has(escapes)
		switch {
		case separates && (c == '/' || c == '\\' && has(backslashes)):
			marked = append(marked, 0x100+separator)
		case separates && c == ';' && has(parameters):
			marked = append(marked, 0x100+end)
		default:
			marked = append(marked, rune(c))
		}
	}
	for _, s := range strings.Split(string(marked), string(rune(0x100+separator))) {
		s, _, _ = strings.Cut(s, string(rune(0x100+end)))
		switch {
		case s == "" || has(blankSegments) && strings.TrimFunc(s, referenceDrops) == "":
		case s == "." && has(dotSegments):
		case s == ".." && has(dotSegments):
			out = out[:max(0, len(out)-1)]
		default:
			out = append(out, s)
		}
	}
	return out
}

// referenceDrops reports whether a byte counts as there or not there, whichever makes a segment match.
func referenceDrops(c rune) bool { return c <= ' ' || c >= 0x7f }

func unhex(c byte) byte {
	return byte(strings.Index("0123456789abcdef", strings.ToLower(string(rune(c)))))
}

func referenceTail(pattern, segments []string) bool {
	if len(pattern) > len(segments) {
		return false
	}
	segments = segments[len(segments)-len(pattern):]
	for i := range pattern {
		var bytes []rune // the pattern too in one rune for each byte
		for _, b := range []byte(pattern[i]) {
			bytes = append(bytes, rune(b))
		}
		last := i == len(pattern)-1
		if !referenceWildcard([]rune(referenceLower(string(bytes))), []rune(referenceLower(segments[i])), last) {
			return false
		}
	}
	return true
}

// referenceWildcard: matches[j] says whether the pattern so far matches the first j characters. The last segment may go on
// behind a dot.
func referenceWildcard(pattern, s []rune, last bool) bool {
	matches := make([]bool, len(s)+1)
	matches[0] = true
	for j := range s {
		matches[j+1] = matches[j] && referenceDrops(s[j])
	}
	for _, p := range pattern {
		next := make([]bool, len(s)+1)
		for j := range next {
			switch {
			case p == '*':
				next[j] = matches[j] || j > 0 && next[j-1]
			case j > 0:
				next[j] = matches[j-1] && s[j-1] == p || next[j-1] && referenceDrops(s[j-1])
			}
		}
		matches = next
	}
	for j, c := range s {
		if last && matches[j] && c == '.' {
			return true
		}
	}
	return matches[len(s)]
}

func referenceLower(s string) string {
	return strings.Map(func(c rune) rune {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		return c
	}, s)
}

// What fill makes of the reading 0 is what segmentWalk makes of it, at the same cost.
func requireFillWalks(t require.TestingT, path string) {
	const most = 100
	quick := pathTail{effort: effort{left: most}}
	quick.fill(path, 0)
	w := segmentWalk{path: path, effort: effort{left: most}}
	var want []string
	for len(want) < config.MaxRouteSegments && w.back() {
		want = append(want, w.segment)
	}
	require.Equal(t, w.effort.over(), quick.effort.over(), "the effort for %q", path)
	if !w.effort.over() {
		require.Equal(t, want, append([]string(nil), quick.segments[:quick.n]...), "%q", path)
	}
}

func TestFillReadsAsTheWalkDoes(t *testing.T) {
	for _, p := range append([]string{"", "/", "//", "a", strings.Repeat("/a", 17), strings.Repeat("/", 100), strings.Repeat("a", 100), strings.Repeat("a/", 50), strings.Repeat("/", 101), strings.Repeat("a", 101)}, spellings...) {
		requireFillWalks(t, p)
	}
	piece := rapid.SampledFrom([]string{"/", "/", "//", "a", "chat", "completions", ".", "..", "%2F", "%61", "%", `\`, "%5C", ";", " ", "é"})
	rapid.Check(t, func(t *rapid.T) {
		requireFillWalks(t, strings.Join(rapid.SliceOfN(piece, 0, 40).Draw(t, "path"), ""))
	})
}

func FuzzFill(f *testing.F) {
	for _, p := range spellings {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, path string) { requireFillWalks(t, path) })
}

// A segment that is its pattern matches it, and a quick look at both says nothing else.
func FuzzSegmentIsItsPattern(f *testing.F) {
	f.Add("*:stream")
	f.Add("é.b")
	f.Fuzz(func(t *testing.T, pattern string) {
		if _, err := config.ParseRoute("/" + pattern); err == nil && !strings.ContainsAny(pattern, "/:@") {
			for _, last := range []bool{false, true} {
				require.True(t, segmentMatches(pattern, pattern, last, &effort{left: 1 << 20}), pattern)
			}
		}
	})
}
