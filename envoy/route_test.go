package envoy_test

import (
	"net/http"
	"testing"

	"github.com/headgate/headgate/envoy/rig"
)

func TestRoutePatternsSayWhatIsGoverned(t *testing.T) {
	env := rig.New(t, rig.Shared(t, 2), rig.Setup{Config: &rig.Config{Pools: []rig.Pool{{Name: "all", Limit: 0}},
		More: rig.Object{"routes": []string{"POST /chat/completions", "/messages"}}}})
	governedCalls := []rig.Call{{Path: "/chat/completions"}, {Path: "/v1/chat/completions"},
		{Path: "/a/b/chat/completions"},
		{Path: "/v1/chat/completions?x=/other"}, {Path: "/v1/messages"}, {Path: "/v1/messages", Method: "GET"}}
	for _, c := range governedCalls {
		env.CheckRefused(t, env.Do(t, c), "all", rig.Rejected)
	}
	before := env.FilterCounts(t)["ungoverned"]
	freeCalls := []rig.Call{{Path: "/v1/chat/completions", Method: "GET"}, {Path: "/v1/embeddings"},
		{Path: "/v1/xchat/completions"},
		{Path: "/v1/chat/completionsx"}, {Path: "/v1/chat/completions/x"}, {Path: "/x?y=/chat/completions"}}
	for _, c := range freeCalls {
		mustBeOK(t, c.Method+" "+c.Path, env.Do(t, c))
	}
	if got := env.FilterCounts(t)["ungoverned"] - before; got != int64(len(freeCalls)) {
		t.Errorf("ungoverned grew by %d, want %d", got, len(freeCalls))
	}
	env.CheckCounts(t, "all", rig.Counts{"evaluated": int64(len(governedCalls)),
		"rejected_closed": int64(len(governedCalls))})
}

// spellings of a governed path; each must count in the same pool, or be refused by Envoy itself.
func spellings() []string {
	return []string{"/v1/chat/completions", "/v1//chat/completions", "/v1/chat//completions", "/v1/chat/completions/",
		"/v1/chat/completions?x=1", "/v1/./chat/completions", "/v1/x/../chat/completions", "/v1/chat/x/../completions",
		"/v1/chat%2Fcompletions", "/v1/chat%2fcompletions", "/v1/ch%61t/completions", "/v1/chat/completion%73",
		"/V1/Chat/Completions", "/v1/chat/completions;a=b", "/v1/chat/completions;", "/v1/chat/completions#x",
		"/v1/chat\\completions", "/v1/%2e/chat/completions", "/v1/chat/%2e%2e/chat/completions", "//v1/chat/completions"}
}

func TestCase_O20_SpellingsOfThePathCountInOnePool(t *testing.T) {
	managers := map[string]rig.Object{
		"as it comes": {},
		"normalised":  {"normalize_path": true, "merge_slashes": true, "path_with_escaped_slashes_action": "KEEP_UNCHANGED"},
		"unescaped": {"normalize_path": true, "merge_slashes": true,
			"path_with_escaped_slashes_action": "UNESCAPE_AND_FORWARD"},
		"redirecting": {"normalize_path": true, "merge_slashes": true,
			"path_with_escaped_slashes_action": "UNESCAPE_AND_REDIRECT"},
		"refusing": {"normalize_path": true, "merge_slashes": true, "path_with_escaped_slashes_action": "REJECT_REQUEST"},
	}
	for name, manager := range managers {
		t.Run(name, func(t *testing.T) {
			env := rig.New(t, rig.Shared(t, 2), rig.Setup{Config: &rig.Config{Pools: []rig.Pool{{Name: "all", Limit: 1}},
				More: rig.Object{"routes": []string{"POST /v1/chat/completions"}}}, Manager: manager})
			held := env.Hold(t, "held")
			for _, path := range spellings() {
				r := env.Raw(t, "POST "+path+" HTTP/1.1\r\nhost: gateway\r\nx-model: m\r\ncontent-length: 0\r\n\r\n")
				byEnvoy := r.Status == http.StatusBadRequest || r.Status == http.StatusTemporaryRedirect
				if !byEnvoy && (r.Status != http.StatusTooManyRequests || r.Reason() != rig.Rejected) {
					t.Errorf("%s: got %s, want 429 while the pool is full", path, r)
				}
			}
			if n := len(env.Up.Requests()); n != 1 {
				t.Errorf("%d spellings reached the upstream", n-1)
			}
			env.Up.Open("held")
			mustBeOK(t, "the held one", held.Wait())
			env.DrainCheck(t, "all", 1)
		})
	}
}

// The paths that Envoy sends to the governed upstream meet the route's limit, however they are written.
func TestCase_O20_SpellingsMeetTheRoutesLimit(t *testing.T) {
	spellings := []string{"/v1//chat/completions", "/v1/chat/completions/", "/v1/chat/completions?x=1",
		"/v1/./chat/completions", "/v1/x/../chat/completions", "/v1/chat%2Fcompletions",
		"/v1/ch%61t/completions", "/V1/Chat/Completions", "/v1/chat/completions;a=b"}
	for name, manager := range map[string]rig.Object{
		"as sent": nil,
		"normalised": {"normalize_path": true, "merge_slashes": true,
			"path_with_escaped_slashes_action": "UNESCAPE_AND_FORWARD"},
		"slashes kept": {"normalize_path": true, "merge_slashes": false,
			"path_with_escaped_slashes_action": "KEEP_UNCHANGED"},
	} {
		t.Run(name, func(t *testing.T) {
			env := protected(t, rig.Setup{Manager: manager}, rig.Object{"routes": []string{"POST /v1/chat/completions:2@g",
				"POST /v1/messages:1@m", "POST /v1/batches:1@m"}},
				rig.Object{"name": "byroute", "key": []string{"route"}, "limit": 100})
			env.Hold(t, "a")
			env.Hold(t, "b", rig.Call{Path: "/v1/chat/./completions"})
			for _, path := range spellings {
				env.CheckRefused(t, env.Do(t, rig.Call{Path: path}), "byroute", rig.Rejected)
			}
			env.Hold(t, "m", rig.Call{Path: "/v1/messages"})
			env.CheckRefused(t, env.Do(t, rig.Call{Path: "/v1/batches"}), "byroute", rig.Rejected)
			mustBeOK(t, "a sub-resource", env.Do(t, rig.Call{Path: "/v1/chat/completions/123"}))
			mustBeOK(t, "another method", env.Do(t, rig.Call{Method: "GET"}))
			env.Up.Open("a", "b", "m")
			env.AwaitDrained(t, "byroute")
			env.CheckCounts(t, "byroute", rig.Counts{"admitted": 3, "rejected_queue_full": int64(len(spellings)) + 1})
			env.CheckAlive(t)
		})
	}
}
