package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRouteParse(t *testing.T) {
	for _, c := range []struct {
		pattern string
		want    Route
	}{
		{"/chat/completions", Route{"", []string{"chat", "completions"}, -1, "", "/chat/completions"}},
		{"POST /chat/completions", Route{"POST", []string{"chat", "completions"}, -1, "", "POST /chat/completions"}},
		{"post /Chat", Route{"POST", []string{"Chat"}, -1, "", "POST /Chat"}},
		{"POST /messages:3@messages", Route{"POST", []string{"messages"}, 3, "messages", "@messages"}},
		{"/messages@m", Route{"", []string{"messages"}, -1, "m", "@m"}},
		{"/messages:0", Route{"", []string{"messages"}, 0, "", "/messages"}},
		{"/messages:1000000", Route{"", []string{"messages"}, 1000000, "", "/messages"}},
		{"POST /models/*:streamGenerateContent", Route{"POST", []string{"models", "*:streamGenerateContent"}, -1, "", "POST /models/*:streamGenerateContent"}},
		{"POST /models/*:generate:7@g", Route{"POST", []string{"models", "*:generate"}, 7, "g", "@g"}},
		{"/a:5/b", Route{"", []string{"a:5", "b"}, -1, "", "/a:5/b"}},
		{"/a@x/b", Route{"", []string{"a@x", "b"}, -1, "", "/a@x/b"}},
		{"/*", Route{"", []string{"*"}, -1, "", "/*"}},
	} {
		require.Equal(t, []Route{c.want}, parsedRoutes(t, c.pattern), c.pattern)
	}
}

func TestRouteRefusals(t *testing.T) {
	const limit = ` has no limit after ':' (want 0 to 1000000)`
	const group = ` has no good group after '@' (want letters, digits, '_', '-' and '.')`
	for _, c := range []struct{ routes, want string }{
		{`"/a"`, `routes: "/a" is not an array`},
		{`[5]`, `routes[0]: 5 is not a string`},
		{`[""]`, `routes[0]: "" is empty`},
		{`["POST chat/completions"]`, `routes[0]: "POST chat/completions" has no path that begins with '/'`},
		{`["chat/completions"]`, `routes[0]: "chat/completions" has no path that begins with '/'`},
		{`["POST"]`, `routes[0]: "POST" has no path that begins with '/'`},
		{`["P@ST /a"]`, `routes[0]: "P@ST /a" begins with no method (want e.g. "POST /chat/completions")`},
		{`[" /a"]`, `routes[0]: " /a" begins with no method (want e.g. "POST /chat/completions")`},
		{`["POST  /a"]`, `routes[0]: "POST  /a" has no path that begins with '/'`},
		{`["POST /a b"]`, `routes[0]: "POST /a b" holds " " (want a decoded path; '*' stands for any run of characters in a segment)`},
		{`["/a?x=1"]`, `routes[0]: "/a?x=1" holds "?" (want a decoded path; '*' stands for any run of characters in a segment)`},
		{`["/deployments/{model}/chat"]`, `routes[0]: "/deployments/{model}/chat" holds "{" (want a decoded path; '*' stands for any run of characters in a segment)`},
		{`["/a%2Fb"]`, `routes[0]: "/a%2Fb" holds "%" (want a decoded path; '*' stands for any run of characters in a segment)`},
		{`["/a;b"]`, `routes[0]: "/a;b" holds ";" (want a decoded path; '*' stands for any run of characters in a segment)`},
		{`["/"]`, `routes[0]: "/" has an empty, '.' or '..' segment`},
		{`["/a/"]`, `routes[0]: "/a/" has an empty, '.' or '..' segment`},
		{`["/a//b"]`, `routes[0]: "/a//b" has an empty, '.' or '..' segment`},
		{`["/a/../b"]`, `routes[0]: "/a/../b" has an empty, '.' or '..' segment`},
		{`["/:5"]`, `routes[0]: "/:5" has an empty, '.' or '..' segment`},
		{`["/` + strings.Repeat("a/", 16) + `a"]`, `routes[0]: "/` + strings.Repeat("a/", 16) + `a" has more than 16 segments`},
		{`["POST /chat/completions:-1"]`, `routes[0]: "POST /chat/completions:-1"` + limit},
		{`["/a:"]`, `routes[0]: "/a:"` + limit},
		{`["/a:@g"]`, `routes[0]: "/a:@g"` + limit},
		{`["/a:5x"]`, `routes[0]: "/a:5x"` + limit},
		{`["/a:1000001"]`, `routes[0]: "/a:1000001"` + limit},
		{`["/a:05"]`, `routes[0]: "/a:05"` + limit},
		{`["POST /chat/completions:5@"]`, `routes[0]: "POST /chat/completions:5@"` + group},
		{`["/a@g:5"]`, `routes[0]: "/a@g:5"` + group},
		{`["/a@g h"]`, `routes[0]: "/a@g h" begins with no method (want e.g. "POST /chat/completions")`},
		{`["POST /messages:3@g", "POST /messages/batches:2@g"]`, `routes[1]: "POST /messages/batches:2@g" disagrees with routes[0] on the limit of group "@g"`},
		{`["/a:3@g", "/b@g"]`, `routes[1]: "/b@g" disagrees with routes[0] on the limit of group "@g"`},
		{`["POST /a", "/b", "post /A:3"]`, `routes[2]: "post /A:3" repeats routes[0], which would always match first`},
	} {
		_, err := Parse([]byte(withJSON(`"routes": ` + c.routes)))
		require.EqualError(t, err, c.want)
	}
}

func parsedRoutes(t *testing.T, patterns ...string) []Route {
	t.Helper()
	c, err := Parse([]byte(withJSON(`"routes": ` + mustJSON(patterns))))
	require.NoError(t, err)
	return c.Routes
}

// ParseRoute says the same as the configuration's parser, without the pattern.
func TestParseRouteAloneAgreesWithTheConfiguration(t *testing.T) {
	for _, pattern := range []string{"", "\n", strings.Repeat("/a", 99), "POST", " /a", "/a b", "/a@!", "/a:x@g", "/a:01", "/a:5", "POST /a/*:go:7@g"} {
		want, err := Parse([]byte(withJSON(`"routes": ` + mustJSON([]string{pattern}))))
		route, problem := ParseRoute(pattern)
		if err == nil {
			require.NoError(t, problem, pattern)
			require.Equal(t, want.Routes[0], route)
		} else {
			require.EqualError(t, err, "routes[0]: "+quoteValue(pattern)+" "+problem.Error())
		}
	}
}
