package envoy_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/headgate/headgate/envoy/rig"
)

func TestCase_O19_HeaderSentTwiceIsRefused(t *testing.T) {
	env := governed(t, 2, tenantPool(1, 0), modelPool(9, 0, longWait))
	held := env.Hold(t, "held", rig.Call{Tenant: "a"})
	before := env.FilterCounts(t)["ambiguous_identity"]
	twice := map[string][]rig.Field{
		"two tenants":    {{Name: "x-tenant", Value: "a"}, {Name: "x-tenant", Value: "b"}},
		"empty and a":    {{Name: "x-tenant", Value: ""}, {Name: "x-tenant", Value: "a"}},
		"the same twice": {{Name: "x-tenant", Value: "a"}, {Name: "X-Tenant", Value: "a"}},
		"two models":     {{Name: "x-model", Value: "b"}},
		"two deadlines":  {{Name: "x-request-timeout-ms", Value: "5"}, {Name: "x-request-timeout-ms", Value: "0"}},
	}
	h2 := env.H2(t)
	const rounds = 20
	for name, header := range twice {
		for range rounds {
			call := rig.Call{Header: header}
			for protocol, r := range map[string]*rig.Reply{"HTTP/1.1": env.Do(t, call), "HTTP/2": h2.Do(call)} {
				if r.Status != http.StatusBadRequest || r.Reason() != rig.Ambiguous {
					t.Fatalf("%s over %s: got %s, want 400 %s", name, protocol, r, rig.Ambiguous)
				}
			}
		}
	}
	if n := len(env.Up.Requests()); n != 1 {
		t.Errorf("%d requests reached the upstream, want the held one alone", n)
	}
	if got, want := env.FilterCounts(t)["ambiguous_identity"]-before, int64(2*rounds*len(twice)); got != want {
		t.Errorf("ambiguous_identity grew by %d, want %d", got, want)
	}
	env.CheckCounts(t, "tenant", rig.Counts{"evaluated": 1, "inflight": 1})
	env.Up.Open("held")
	mustBeOK(t, "the held one", held.Wait())
	env.DrainCheck(t, "tenant", 1, rig.Call{Tenant: "a"})
}

// Envoy joins two grpc-timeouts to one value before any filter sees them. That value is malformed, so it is ignored and
// counted.
func TestCase_O19_TwoGRPCTimeoutsAreOneMalformedDeadline(t *testing.T) {
	env := governed(t, 2, tenantPool(1, 0))
	before := env.FilterCounts(t)["bad_deadline"]
	mustBeOK(t, "two grpc-timeouts", env.Do(t, rig.Call{Header: append(grpcTimeout("5S"), grpcTimeout("0S")...)}))
	if got := env.FilterCounts(t)["bad_deadline"] - before; got != 1 {
		t.Errorf("bad_deadline grew by %d, want 1", got)
	}
	env.DrainCheck(t, "tenant", 1)
}

// The identity that counts is the one that the upstream sees.
func TestCase_O19_OneHeaderIsOneValue(t *testing.T) {
	env := governed(t, 2, tenantPool(1, 0))
	held := env.Hold(t, "held", rig.Call{Tenant: "a"})
	for _, value := range []string{"a", "a\t", "  a "} {
		env.CheckRefused(t, env.Do(t, rig.Call{Header: []rig.Field{{Name: "x-tenant", Value: value}}}), "tenant",
			rig.Rejected)
	}
	for _, value := range []string{"a,b", "A", "b"} {
		call := rig.Call{Tenant: value}.With("as-" + value)
		mustBeOK(t, fmt.Sprintf("tenant %q", value), env.Do(t, call))
		if seen, _ := env.Up.Request(call.ID); seen.Header.Get("x-tenant") != value {
			t.Errorf("the upstream saw the tenant %q, sent %q", seen.Header.Get("x-tenant"), value)
		}
	}
	env.Up.Open("held")
	mustBeOK(t, "the held one", held.Wait())
	env.Up.ResetPeak()
	env.DrainCheck(t, "tenant", 1, rig.Call{Tenant: "a"})
}

func TestRequestsWithoutIdentityShareOneKey(t *testing.T) {
	env := governed(t, 2, tenantPool(1, 0), modelPool(1, 0, ""))
	held := env.Hold(t, "held", rig.Call{NoModel: true})
	env.CheckRefused(t, env.Do(t, rig.Call{NoModel: true}), "tenant", rig.Rejected)
	env.CheckRefused(t, env.Do(t, rig.Call{NoModel: true, Header: []rig.Field{{Name: "x-tenant", Value: ""}}}), "tenant",
		rig.Rejected)
	env.CheckRefused(t, env.Do(t, rig.Call{NoModel: true, Tenant: "acme"}), "model", rig.Rejected)
	mustBeOK(t, "another tenant and model", env.Do(t, rig.Call{Tenant: "acme"}))
	env.Up.Open("held")
	mustBeOK(t, "the held one", held.Wait())
	env.Up.ResetPeak()
	env.DrainCheck(t, "tenant", 1, rig.Call{NoModel: true})
}
