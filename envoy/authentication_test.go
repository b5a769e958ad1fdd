package envoy_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/envoy/rig"
)

// jwtTenant is the token's subject, where jwt_authn leaves it.
var jwtTenant = rig.Object{"metadata": []string{rig.JWTNamespace, "payload", "sub"}}

// tenantOf makes a configuration's tenant come from these sources.
func tenantOf(sources ...rig.Object) rig.Object {
	return rig.Object{"identity": rig.Object{"tenant": sources, "model": []rig.Object{{"header": "x-model"}},
		"class": []rig.Object{{"header": "x-class", "trusted": true}}}}
}

// identified is a listener with a pool of one permit for each tenant, behind filters that authenticate the client.
func identified(t *testing.T, before []rig.Object, sources ...rig.Object) *rig.Env {
	t.Helper()
	return rig.New(t, rig.Shared(t, 2), rig.Setup{Config: &rig.Config{Pools: []rig.Pool{tenantPool(1, 0)},
		More: tenantOf(sources...)}, Before: before})
}

// oneKey checks that two calls count against one key of the pool; twoKeys that they don't.
func oneKey(t *testing.T, env *rig.Env, pool, what string, a, b rig.Call) {
	t.Helper()
	keys(t, env, what, a, b, func(r *rig.Reply) { t.Helper(); env.CheckRefused(t, r, pool, rig.Rejected) })
}

func twoKeys(t *testing.T, env *rig.Env, what string, a, b rig.Call) {
	t.Helper()
	keys(t, env, what, a, b, func(r *rig.Reply) { t.Helper(); mustBeOK(t, what, r) })
}

func keys(t *testing.T, env *rig.Env, what string, a, b rig.Call, second func(*rig.Reply)) {
	t.Helper()
	id := t.Name() + what
	held := env.Hold(t, id, a)
	second(env.Do(t, b))
	env.Up.Open(id)
	mustBeOK(t, what, held.Wait())
}

func with(fields ...rig.Field) rig.Call { return rig.Call{Header: fields} }

func TestTenantFromAVerifiedToken(t *testing.T) {
	issuer := rig.NewTokenIssuer(t)
	env := identified(t, []rig.Object{issuer.Filter(true)}, jwtTenant)
	sub := func(name string, more ...rig.Field) rig.Call {
		return with(append(more, issuer.Bearer(t, rig.Object{"sub": name}))...)
	}
	twoKeys(t, env, "two subjects", sub("acme"), sub("other"))
	oneKey(t, env, "tenant", "one subject, another token", sub("acme"),
		with(issuer.Bearer(t, rig.Object{"sub": "acme", "jti": "2"})))
	oneKey(t, env, "tenant", "a header that says otherwise", sub("acme"),
		sub("acme", rig.Field{Name: "x-tenant", Value: "fresh"}))
	oneKey(t, env, "tenant", "no token", with(rig.Field{Name: "x-tenant", Value: "a"}),
		with(rig.Field{Name: "x-tenant", Value: "b"}))
	twoKeys(t, env, "no token beside a subject", sub("acme"), rig.Call{})
	oneKey(t, env, "tenant", "a subject that is no text is none", with(issuer.Bearer(t, rig.Object{"sub": ""})),
		rig.Call{})
	env.AwaitDrained(t, "tenant")
	env.CheckIdentity(t, "tenant")
}

// noGood are calls with tokens that authentication has to refuse.
func noGood(t *testing.T, issuer *rig.TokenIssuer) map[string]rig.Call {
	good := issuer.Token(t, rig.Object{"sub": "acme"})
	bearer := func(token string) rig.Call { return with(rig.Field{Name: "authorization", Value: "Bearer " + token}) }
	hourAgo := time.Now().Add(-time.Hour).Unix()
	parts := strings.Split(good, ".")
	other := strings.Split(issuer.Token(t, rig.Object{"sub": "other"}), ".")
	return map[string]rig.Call{
		"another issuer's":           with(rig.NewTokenIssuer(t).Bearer(t, rig.Object{"sub": "acme"})),
		"another token's signature":  bearer(parts[0] + "." + parts[1] + "." + other[2]),
		"not signed":                 bearer("eyJhbGciOiJub25lIn0." + parts[1] + "."),
		"expired":                    with(issuer.Bearer(t, rig.Object{"sub": "acme", "exp": hourAgo})),
		"cut":                        bearer(good[:len(good)-20]),
		"not a token":                bearer("acme"),
		"of an issuer nobody trusts": with(issuer.Bearer(t, rig.Object{"sub": "acme", "iss": "else"})),
	}
}

// Whichever filter comes first: a request that authentication refuses reaches no upstream. If authentication comes
// first, it does not reach a pool either.
func TestForgedTokensNeverReachATenantsPool(t *testing.T) {
	issuer := rig.NewTokenIssuer(t)
	calls := noGood(t, issuer)
	calls["missing"] = rig.Call{}
	acme := with(issuer.Bearer(t, rig.Object{"sub": "acme"}))
	for _, order := range []string{"authentication first", "admission first"} {
		t.Run(order, func(t *testing.T) {
			s := rig.Setup{Config: &rig.Config{Pools: []rig.Pool{tenantPool(1, 1)}, More: tenantOf(jwtTenant)}}
			pool, like := "tenant", acme
			if order == "authentication first" {
				s.Before = []rig.Object{issuer.Filter(false)}
			} else {
				s.After = []rig.Object{issuer.Filter(false)}
			}
			env := rig.New(t, rig.Shared(t, 2), s)
			held := env.Hold(t, "held", acme)
			if order == "admission first" { // the tenant is not known yet, so all are one: free the permit
				env.Up.Open("held")
				mustBeOK(t, "the held one", held.Wait())
			}
			before := env.Pool(t, pool)["evaluated"]
			for name, call := range calls {
				if r := env.Do(t, call.With(name)); r.Status != http.StatusUnauthorized || r.Reason() != "" {
					t.Errorf("%s: got %s, want jwt_authn's 401", name, r)
				}
				if env.Up.Saw(name) {
					t.Errorf("%s reached the upstream", name)
				}
			}
			if n := env.Pool(t, pool)["evaluated"] - before; order == "authentication first" && n != 0 {
				t.Errorf("%d requests that authentication refused were evaluated", n)
			}
			env.Up.Open("held")
			mustBeOK(t, "the held one", held.Wait())
			env.DrainCheck(t, pool, 1, like)
		})
	}
}

// A request that waited goes through the filters behind ours, as any other request does.
func TestWaitingDoesNotSkipTheFiltersBehind(t *testing.T) {
	issuer := rig.NewTokenIssuer(t)
	for _, model := range []rig.Object{{"header": "x-model"}, {"json_body": "model"}} {
		env := rig.New(t, rig.Shared(t, 2), rig.Setup{Config: &rig.Config{Pools: []rig.Pool{modelPool(1, 2, longWait)},
			More: modelOf(model)},
			After: []rig.Object{issuer.Filter(false), rbacFilter}})
		good := issuer.Bearer(t, rig.Object{"sub": "acme"})
		body := []byte(`{"model":"m"}`)
		held := env.Hold(t, "held", rig.Call{Header: []rig.Field{good}, Body: body})
		waiters := env.Queue(t, "model", rig.Call{Body: body}.With("no token"),
			rig.Call{Header: append([]rig.Field{good}, failing.Header...), Body: body}.With("denied"))
		env.Up.Open("held")
		mustBeOK(t, "the held one", held.Wait())
		if r := waiters[0].Wait(); r.Status != http.StatusUnauthorized {
			t.Errorf("without a token, after a wait: got %s, want 401", r)
		}
		if r := waiters[1].Wait(); r.Status != http.StatusForbidden {
			t.Errorf("not authorised, after a wait: got %s, want 403", r)
		}
		if n := len(env.Up.Requests()); n != 1 {
			t.Errorf("the upstream saw %d requests, want the held one alone", n)
		}
		env.DrainCheck(t, "model", 1, rig.Call{Header: []rig.Field{good}, Body: body})
	}
}

func TestTenantFromTheClientsCertificate(t *testing.T) {
	authority := rig.NewAuthority(t)
	uri := func(text string) *url.URL { u, _ := url.Parse(text); return u }
	name := func(spiffe, dns, common string) x509.Certificate {
		return x509.Certificate{Subject: pkix.Name{CommonName: common}, DNSNames: []string{dns},
			URIs: []*url.URL{uri("spiffe://rig/" + spiffe)}}
	}
	a := authority.Client(t, name("a", "a.test", "client a"))
	for source, other := range map[string]x509.Certificate{
		"uri_san": name("b", "a.test", "client a"),
		"dns_san": name("a", "b.test", "client a"),
		"subject": name("a", "a.test", "client b"),
	} {
		t.Run(source, func(t *testing.T) {
			env := rig.New(t, rig.Shared(t, 2), rig.Setup{TLS: authority,
				Config: &rig.Config{Pools: []rig.Pool{tenantPool(1, 0)}, More: tenantOf(rig.Object{"peer_certificate": source})}})
			b := authority.Client(t, other)
			oneKey(t, env, "tenant", "one client, two connections", rig.Call{As: a}, rig.Call{As: a})
			twoKeys(t, env, "two clients", rig.Call{As: a}, rig.Call{As: b})
			twoKeys(t, env, "no certificate beside one", rig.Call{As: a}, rig.Call{})
			oneKey(t, env, "tenant", "no certificate", rig.Call{}, rig.Call{})
			stranger := rig.NewAuthority(t).Client(t, name("a", "a.test", "client a"))
			if r := env.Do(t, rig.Call{As: stranger}.With("stranger")); r.Status != 0 || env.Up.Saw("stranger") {
				t.Errorf("a certificate of another authority: got %s, want no connection", r)
			}
			env.Up.ResetPeak()
			env.DrainCheck(t, "tenant", 1, rig.Call{As: a})
		})
	}
}

// headerToMetadata moves x-key into metadata, as a filter that looks up API keys does.
var headerToMetadata = rig.Filter("envoy.filters.http.header_to_metadata",
	"envoy.extensions.filters.http.header_to_metadata.v3.Config", rig.Object{
		"request_rules": []rig.Object{{"header": "x-key", "remove": true,
			"on_header_present": rig.Object{"metadata_namespace": "keys", "key": "owner", "type": "STRING"}}},
	})

// setFilterState puts x-state into filter state.
var setFilterState = rig.Filter("envoy.filters.http.set_filter_state",
	"envoy.extensions.filters.http.set_filter_state.v3.Config", rig.Object{
		"on_request_headers": []rig.Object{{"object_key": "rig.owner", "factory_key": "envoy.string",
			"format_string": rig.Object{"text_format_source": rig.Object{"inline_string": "%REQ(x-state)%"},
				"omit_empty_values": true}, "skip_if_empty": true}},
	})

func TestTenantSourcesInTheirOrder(t *testing.T) {
	env := identified(t, []rig.Object{headerToMetadata, setFilterState},
		rig.Object{"metadata": []string{"keys", "owner"}}, rig.Object{"filter_state": "rig.owner"},
		rig.Object{"header": "x-tenant", "trusted": true}, rig.Object{"value": "last"})
	first := func(name string) rig.Field { return rig.Field{Name: name, Value: "a"} }
	second := func(f rig.Field) rig.Field { f.Value = "b"; return f }
	key, state, header := first("x-key"), first("x-state"), first("x-tenant")
	for _, f := range []rig.Field{key, state, header} {
		oneKey(t, env, "tenant", "the same "+f.Name, with(f), with(f))
		twoKeys(t, env, "two of "+f.Name, with(f), with(second(f)))
	}
	oneKey(t, env, "tenant", "the same name from two sources", with(key), with(header))
	oneKey(t, env, "tenant", "metadata before filter state and header", with(key),
		with(key, second(state), second(header)))
	oneKey(t, env, "tenant", "filter state before a header", with(state), with(state, second(header)))
	twoKeys(t, env, "a source that yields hides the next", with(second(key), header), with(header))
	oneKey(t, env, "tenant", "nothing but the value", rig.Call{}, rig.Call{})
	oneKey(t, env, "tenant", "the value by another way", rig.Call{}, with(rig.Field{Name: "x-key", Value: "last"}))
	env.Up.ResetPeak()
	env.DrainCheck(t, "tenant", 1, with(key))
}

// ext_authz leaves what its service says in metadata of its own.
func TestTenantFromExternalAuthorisation(t *testing.T) {
	authz := rig.NewUpstream(t)
	owner := rig.Object{"patterns": []rig.Object{{"exact": "x-owner"}}}
	filter := rig.Filter("envoy.filters.http.ext_authz", "envoy.extensions.filters.http.ext_authz.v3.ExtAuthz", rig.Object{
		"http_service": rig.Object{"server_uri": rig.Object{"uri": "http://authz", "cluster": "authz", "timeout": "60s"},
			"authorization_response": rig.Object{"dynamic_metadata_from_headers": owner}},
	})
	env := rig.New(t, rig.Shared(t, 2), rig.Setup{Before: []rig.Object{filter},
		Clusters: []rig.Object{rig.Cluster("authz", authz.Port)},
		Config: &rig.Config{Pools: []rig.Pool{tenantPool(1, 0)},
			More: tenantOf(rig.Object{"metadata": []string{"envoy.filters.http.ext_authz", "x-owner"}})}})
	call := func(id, owner string, status int) rig.Call {
		authz.Override(id, rig.Script{Status: status, Headers: map[string]string{"x-owner": owner}})
		return rig.Call{Script: rig.Script{ID: id, HeaderGate: id}}
	}
	env.Up.Open("second", "third", "denied")
	a := env.Run(t, call("first", "a", 200))
	env.CheckRefused(t, env.Do(t, call("second", "a", 200)), "tenant", rig.Rejected)
	mustBeOK(t, "another owner", env.Do(t, call("third", "b", 200)))
	evaluated := env.Pool(t, "tenant")["evaluated"]
	if r := env.Do(t, call("denied", "c", 403)); r.Status != http.StatusForbidden || env.Up.Saw("denied") {
		t.Errorf("not authorised: got %s, want 403", r)
	}
	env.CheckCounts(t, "tenant", rig.Counts{"evaluated": evaluated})
	env.Up.Open("first")
	mustBeOK(t, "the first", a.Wait())
	env.AwaitDrained(t, "tenant")
}
