package cluster

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const goodCall = `{"domain":"d","replica":"r-1","call":1,"ttl_ms":5000,"pools":[{"pool":"model","key":"m","limit":6,"keep":2,"wants":9}]}`

func TestACallIsRead(t *testing.T) {
	call, err := ParseLeaseCall([]byte(goodCall))
	require.NoError(t, err)
	require.Equal(t, &LeaseCall{Domain: "d", Replica: "r-1", Call: 1, TTL: 5000,
		Pools: []Ask{{Key: Key{"model", "m"}, Limit: 6, Keep: 2, Wants: 9}}}, call)
	_, err = ParseLeaseCall([]byte(strings.Replace(goodCall, `"call"`, `"new":{"a":[1]},"call"`, 1)))
	require.NoError(t, err, "a newer replica may say more")
}

func TestABadCallIsRefusedWithTheField(t *testing.T) {
	for _, c := range [][3]string{ // what is replaced, by what, the error
		{`"d"`, `""`, `domain: "" is not a name (want 1 to 64 letters, digits and "_-.:")`},
		{`"d"`, `"a}b"`, `domain: "a}b" is not a name (want 1 to 64 letters, digits and "_-.:")`},
		{`"r-1"`, `"r 1"`, `replica: "r 1" is not a name (want 1 to 128 letters, digits and "_-.:")`},
		{`"call":1`, `"call":0`, `call: is 0 (want 1 to 9007199254740991)`},
		{`5000`, `999`, `ttl_ms: is 999 (want 1000 to 60000)`},
		{`5000`, `60001`, `ttl_ms: is 60001 (want 1000 to 60000)`},
		{`"model"`, `"a/b"`, `pools[0].pool: "a/b" is not a name (want 1 to 64 letters, digits and "_-.:")`},
		{`"m"`, `"` + strings.Repeat("k", 1025) + `"`, `pools[0].key: is 1025 bytes long (want at most 1024)`},
		{`"limit":6`, `"limit":1000001`, `pools[0].limit: is 1000001 (want 0 to 1000000)`},
		{`"keep":2`, `"keep":-1`, `pools[0].keep: is -1 (want 0 to 1000000)`},
		{`"wants":9`, `"wants":-1`, `pools[0].wants: is -1 (want 0 to 1000000)`},
		{`"wants":9}`, `"wants":9},{"pool":"model","key":"m"}`, `pools[1]: names pool "model", key "m", which another element names too`},
		{`]}`, `]}]`, `the body: is not the JSON that is wanted: there is more behind the object`},
		{`"keep":2`, `"keep":"2"`, `the body: is not the JSON that is wanted: json: cannot unmarshal string into Go struct field Ask.pools.keep of type int64`},
	} {
		text := strings.Replace(goodCall, c[0], c[1], 1)
		require.NotEqual(t, goodCall, text)
		_, err := ParseLeaseCall([]byte(text))
		require.EqualError(t, err, c[2])
		require.ErrorIs(t, err, ErrCall)
	}
	many := strings.Repeat(`{"pool":"p"},`, MaxPools) + `{"pool":"p"}`
	_, err := ParseLeaseCall([]byte(`{"domain":"d","replica":"r","call":1,"ttl_ms":5000,"pools":[` + many + `]}`))
	require.EqualError(t, err, "pools: has 4097 elements (want at most 4096)")
	_, err = ParseLeaseCall(make([]byte, MaxCallBytes+1))
	require.EqualError(t, err, "the body: is longer than 1048576 bytes")
}

func TestALimitIsRead(t *testing.T) {
	key, limit := "m", int64(4)
	for text, want := range map[string]LimitCall{
		`{"domain":"d","pool":"model","key":"m","limit":4}`:    {"d", "model", &key, &limit},
		`{"domain":"d","pool":"model","limit":4}`:              {"d", "model", nil, &limit},
		`{"domain":"d","pool":"model","key":"m","limit":null}`: {"d", "model", &key, nil},
	} {
		got, err := ParseLimitCall([]byte(text))
		require.NoError(t, err, text)
		require.Equal(t, &want, got, text)
	}
	for text, want := range map[string]string{
		`{"domain":"d","pool":"model"}`:                               `limit: is missing (want a number, or null for what the configuration says)`,
		`{"domain":"d","pool":"model","limit":-1}`:                    `limit: is -1 (want 0 to 1000000)`,
		`{"domain":"","pool":"model","limit":1}`:                      `domain: "" is not a name (want 1 to 64 letters, digits and "_-.:")`,
		`{"domain":"d","pool":"","limit":1}`:                          `pool: "" is not a name (want 1 to 64 letters, digits and "_-.:")`,
		`{"domain":"d","pool":"model","limit":1,"limits":1}`:          `the body: is not the JSON that is wanted: json: unknown field "limits"`,
		`{"domain":"d","pool":"p","key":"` + "\xff" + `","limit":1}{`: `the body: is not the JSON that is wanted: there is more behind the object`,
	} {
		_, err := ParseLimitCall([]byte(text))
		require.EqualError(t, err, want, text)
		require.ErrorIs(t, err, ErrCall)
	}
}

func FuzzLeaseCall(f *testing.F) {
	f.Add([]byte(goodCall))
	f.Add([]byte(`{"domain":"d","pools":[{"pool":"p","key":"\ud800"}]}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		call, err := ParseLeaseCall(text)
		if err != nil {
			if !errors.Is(err, ErrCall) || err.Error() == "" {
				t.Fatalf("%q", err)
			}
			return
		}
		ledger := NewLedger()
		if _, err := ledger.Lease(1, call); err != nil {
			t.Fatal(err)
		}
		again, err := json.Marshal(call)
		if err != nil {
			t.Fatal(err)
		}
		if len(again) <= MaxCallBytes {
			if _, err := ParseLeaseCall(again); err != nil {
				t.Fatalf("%s: %v", again, err)
			}
		}
	})
}
