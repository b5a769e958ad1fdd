package request

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// lenientPaths are paths that some framework serves as /v1/chat/completions. docs/security.md says which one reads what.
var lenientPaths = map[string][]string{
	"a line end at the path's end":  {"/v1/chat/completions%0a", "/v1/chat/completions%0A?x=1"},
	"blanks at a segment's ends":    {"/v1/chat/completions%20", "/v1/%20chat%09/%0b%20completions%0d%0a", "/v1/chat/completions\t"},
	"control characters":            {"/v1/chat/completions%00", "/v1/chat%1f/completions", "/v1/chat/completions%7F"},
	"a segment of blanks":           {"/v1/chat/completions/%20", "/v1/chat/%00%20/completions", "/v1/%20/../chat/%09/completions"},
	"bytes that are not UTF-8":      {"/v1/ch%80at/completions", "/v1/chat/completions%ff", "/v1/chat/\xc3completions", "/v1/chat/completions\xa0"},
	"a format":                      {"/v1/chat/completions.json", "/v1/chat/completions.", "/v1/chat/completions.a.b", "/v1/chat/completions%2exml", "/v1/chat/completions.json%0a"},
	"a format behind dropped bytes": {"/v1/chat/completions%0a.json", "/v1/chat/completions.json/", "/v1/chat/completions.;x", "/v1/chat/completions.%"},
	"parameters, escaped or not":    {"/v1/chat;%3b/completions", "/v1/chat%3b;/completions%0a", "/v1/%3b/chat/completions", "/v1/x/..%3bx/chat%3ba/completions"},
	"dot segments, resolved":        {"/v1/%2e%2e/chat/x%0a/..;a/completions", "/v1/chat/%2e/completions/.%2e/completions%20"},
	"everything in one":             {`/v1/%20/x;y%2f..%5c%80chat%0b%3b\./completions%00.json;`},
}

func TestPathsAreReadAsTheMostLenientUpstreamReadsThem(t *testing.T) {
	routes := routesOf(t, "POST /chat/completions")
	for name, paths := range lenientPaths {
		for _, path := range paths {
			_, ok := MatchRoute(routes, "POST", path)
			require.True(t, ok, "%s: %q", name, path)
			require.Zero(t, testing.AllocsPerRun(10, func() { MatchRoute(routes, "POST", path) }), path)
		}
	}
}

// What no upstream drops stays: another character, a dot before the last segment's end, a whole segment.
func TestLenientReadingsDoNotGovernEverything(t *testing.T) {
	routes := routesOf(t, "POST /chat/completions", "POST /models/*:go")
	for _, path := range []string{
		"/v1/chat/completions+", "/v1/chat/completions%2b", "/v1/chat/completions-", "/v1/chat/completions_", "/v1/chat/completions%24", "/v1/chat/completions%2520", "/v1/chat/completions%0a%0",
		"/v1/chat.json/completions", "/v1/chat./completions", "/v1/chat/.completions", "/v1/chat/completion.s", "/v1/chat/completions/.json", "/v1/chat/x.completions",
		"/v1/chat/completions/x%20", "/v1/chat/%20x/completions", "/v1/chatcompletions%20", "/v1/chat%20completions", "/v1/chat/%80/x/completions", "/%20", "/%0a", "%00", " ",
		"/models/x:g%20x", "/models/x:gone.json", "/models/x.go",
	} {
		_, ok := MatchRoute(routes, "POST", path)
		require.False(t, ok, "%q", path)
	}
}

// Upstreams that resolve no dot segments see `..` as any other name.
func TestDotSegmentsAsNames(t *testing.T) {
	routes := routesOf(t, "/m/*/generate")
	for _, path := range []string{"/m/%2e%2e/generate", "/m/../generate", "/m/./generate", "/m/.%2E/generate", "/m/x/../generate/../generate", "/m/%2e%2e;a/generate", "/m/..%20/generate", "/x/m/..%5cgenerate"} {
		_, ok := MatchRoute(routes, "POST", path)
		require.Equal(t, path != "/m/x/../generate/../generate", ok, path)
	}
}

func TestRouteWildcardsPassOverDroppedBytes(t *testing.T) {
	routes := routesOf(t, "/models/*:generate", "/a/x*y*z/b")
	for _, path := range []string{
		"/models/gemini:generate%0a", "/models/gemini:gen%80erate", "/models/%20:%20generate%20", "/models/:generate.json", "/models/a.b:generate", "/models/%0a%0a%0a:generate%0a", "/models/a:gen:generate%20%20",
		"/a/x%20%20y%ffz%00/b", "/a/%20x%20%20%20yz/b", "/a/xy%20y%20z%20y%20z%20/b.x",
	} {
		_, ok := MatchRoute(routes, "POST", path)
		require.True(t, ok, path)
	}
	for _, path := range []string{"/models/gemini:generate%0ax", "/models/gemini.generate", "/a/x%20y/b", "/a/xyz.json/b"} {
		_, ok := MatchRoute(routes, "POST", path)
		require.False(t, ok, path)
	}
}

func TestPathValueOfLenientPaths(t *testing.T) {
	for _, c := range []struct{ prefix, suffix, path, want string }{
		{"/deployments/", "/", "/deployments/gpt-4%20/chat", "gpt-4"},
		{"/deployments/", "/", "/deployments/%09%0a%20gpt-4%00%7f/chat", "gpt-4"},
		{"/deployments/", "/", "/deployments%0a/gpt-4/chat", "gpt-4"},
		{"/deployments/", "/", "/deployments/%20/gpt-4/chat", "gpt-4"},
		{"/deployments/", "/chat", "/deployments/gpt-4/chat%0a", "gpt-4"},
		{"/deployments/", "/chat", "/deployments/gpt-4/chat.json", "gpt-4"},
		{"/deployments/", "/chat", "/deployments/gpt-4/chat.json/x", ""},
		{"/deployments/", "/chat", "/d%80eployments/gpt-4/cha%fft", "gpt-4"},
		{"/deployments/", "/", "/deployments/gpt%204/chat", "gpt 4"},
		{"/deployments/", "/", "/deployments/gpt-4.1/chat", "gpt-4.1"},
		{"/deployments/", "", "/deployments/gpt-4.1", "gpt-4.1"},
		{"/deployments/", "", "/deployments/gpt-4%0a", "gpt-4"},
		{"/deployments/", "/", "/deployments/x%3b/y;z/gpt-4", "x"},
		{"/deployments/", "/", "/deployments/%2e%2e/deployments/m/x", "m"},
		{"/deployments/", "/x", "/deployments/%2e%2e/x", ""},
		{"/models/", ":generate", "/models/gemini:generate%0a", "gemini"},
		{"/models/", ":generate", "/models/%20gemini%20:generate", "gemini "},
		{"/models/", ":generate", "/models/%20:generate", ""},
		{"/deployments/", "/", "/deployments/%20/", ""},
		{"/deployments/", "/", "/deployments/mod%C3%A8le/", "modèle"},
	} {
		got, ok := PathValue(c.prefix, c.suffix, c.path)
		require.Equal(t, c.want, got, "%v", c)
		require.Equal(t, c.want != "", ok, "%v", c)
	}
}

// 60 KiB is the longest path that Envoy accepts unless told otherwise. The first segment has all readings.
func TestHostilePathsInAllReadings(t *testing.T) {
	routes := routesOf(t, "POST /models/*a*b*c*:streamGenerateContent", "POST /*ab", "POST /chat/completions")
	for _, unit := range []string{"/", "/a", "/a/..", `/..%2F%5C%3B;%20\a%80.%2e`, "/;%2f\\..%20", "a%20", "%20", "\x80", "ab%20", "/%20", ".;\\%2f ", ".", "%2e", "c%80%80%80", "/chat/completions%20"} {
		path := `/models/..%2f\;%20` + strings.Repeat(unit, 60<<10/len(unit)) + "x"
		start := time.Now()
		MatchRoute(routes, "POST", path)
		PathValue("/models/", "/x", path)
		require.Less(t, time.Since(start), 10*time.Second, unit) // on a busy machine too; without a bound it is minutes
		require.Zero(t, testing.AllocsPerRun(1, func() { MatchRoute(routes, "POST", path) }), unit)
	}
}

func FuzzPathValue(f *testing.F) {
	for _, paths := range lenientPaths {
		for _, path := range paths {
			f.Add("/deployments/" + path)
		}
	}
	f.Fuzz(func(t *testing.T, path string) {
		value, ok := PathValue("/deployments/", "/", path)
		require.Equal(t, ok, value != "")
		require.Equal(t, strings.Trim(value, blanks), value)
	})
}

// No path keeps a worker for long, however long it is and however many readings it has. One that takes too much effort
// is governed.
func TestAHostilePathTakesLittleTime(t *testing.T) {
	var patterns []string
	for i := range 20 {
		patterns = append(patterns, fmt.Sprintf("POST /*:generateContent%d", i), fmt.Sprintf("POST /v%d/*/*/invoke", i))
	}
	routes := routesOf(t, patterns...)
	const long = 60_000
	for name, path := range map[string]string{
		"almost a pattern":           strings.Repeat("a:generateConten", long/16),
		"every reading":              strings.Repeat(`%2f%2e;\\ %80a:`, long/18) + ":generateContent",
		"blanks":                     strings.Repeat("%20", long/3) + ":generateContent",
		"dots":                       strings.Repeat("/%2e.;%2f\\ ", long/13) + "chat",
		"separators":                 strings.Repeat("/%2f\\;%20", long/10),
		"one segment":                strings.Repeat("%61", long/3),
		"stars":                      "/v1/" + strings.Repeat("%2f*:", long/6) + "/invoke",
		"all readings of a long end": `x%2f../\\%5c;%3b/%20/` + strings.Repeat(":%61", long/4),
		"half a verb, often":         strings.Repeat(":generate%20Con", long/15),
	} {
		began := time.Now()
		for range 50 {
			MatchRoute(routes, "POST", "/"+path)
			PathValue("/deployments/", "/", "/"+path)
			APIOf("/" + path)
		}
		require.Less(t, time.Since(began), 5*time.Second, name)
		_, governed := MatchRoute(routes, "POST", "/"+path+"/x:generateContent7")
		require.True(t, governed, "%s: the end of it is a governed path", name)
	}
}

// Each step counts, and a path that needs too many is governed and has no value.
func TestTheEffortForAPathIsCounted(t *testing.T) {
	e := effort{left: 10}
	require.False(t, segmentMatches("*:x", strings.Repeat("a", 100)+":x", false, &e))
	require.True(t, e.over())
	w := segmentWalk{path: strings.Repeat("/", 100), effort: effort{left: 10}}
	w.back()
	require.True(t, w.effort.over())
	routes := routesOf(t, "POST /x")
	_, governed := MatchRoute(routes, "POST", "/"+strings.Repeat("a", leastEffort))
	require.False(t, governed, "a long path that is read to its beginning")
	_, governed = MatchRoute(routes, "POST", "/"+strings.Repeat("a", leastEffort+effortPerRoute))
	require.True(t, governed, "one that is not")
	_, ok := PathValue("/deployments/", "/", "/deployments/m/x")
	require.True(t, ok)
	_, ok = PathValue("/deployments/", "/", "/deployments/m/"+strings.Repeat("a", leastEffort))
	require.False(t, ok)
}
