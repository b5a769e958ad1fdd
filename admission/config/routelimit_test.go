package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/admission/config"
)

func parseRouted(routes, pools string) (*config.Config, error) {
	return config.Parse([]byte(`{"routes": [` + routes + `], "pools": [` + pools + `]}`))
}

const gatewayPool = `{"name": "gateway", "limit": 64}`

func TestRouteLimitsMakeAPoolOfTheirOwn(t *testing.T) {
	c, err := parseRouted(`"POST /chat/completions:4", "/embeddings", "POST /messages:2@msg", "POST /messages/batches:2@msg", "POST /closed:0", "POST /models/*:streamGenerateContent:3"`, gatewayPool)
	require.NoError(t, err)
	require.Len(t, c.Pools, 2)
	names := []string{"POST /chat/completions", "@msg", "POST /closed", "POST /models/*:streamGenerateContent"}
	require.Equal(t, config.Pool{Name: "route", Key: []config.Dimension{config.DimensionRoute},
		Keys:  map[string]int{names[0]: 4, names[1]: 2, names[2]: 0, names[3]: 3},
		Match: []config.Match{{Dimension: config.DimensionRoute, Values: names}}}, c.Pools[0], "it comes first, and nobody waits in it")
	require.Equal(t, "gateway", c.Pools[1].Name)
}

func TestRoutesWithoutLimitsMakeNoPool(t *testing.T) {
	for _, routes := range []string{``, `"POST /chat/completions"`, `"POST /a@g", "POST /b@g"`, `"POST /models/*:streamGenerateContent"`} {
		c, err := parseRouted(routes, gatewayPool)
		require.NoError(t, err)
		require.Len(t, c.Pools, 1)
	}
}

func TestPoolKeyedByRouteTakesTheLimits(t *testing.T) {
	c, err := parseRouted(`"POST /a:4", "/b", "POST /c:2@g"`, gatewayPool+`, {"name": "byroute", "key": ["route"], "limit": 9, "queue": 5}, {"name": "again", "key": ["route"], "limit": 1, "keys": {"/b": {"limit": 7}}}`)
	require.NoError(t, err)
	require.Len(t, c.Pools, 3)
	require.Nil(t, c.Pools[0].Keys)
	require.Equal(t, map[string]int{"POST /a": 4, "@g": 2}, c.Pools[1].Keys)
	require.Equal(t, 9, c.Pools[1].Limit)
	require.Equal(t, map[string]int{"POST /a": 4, "@g": 2, "/b": 7}, c.Pools[2].Keys)
	require.Nil(t, c.Pools[1].Match)
}

// A pool whose key is the route and something else has no place for a limit of the route alone.
func TestPoolKeyedByRouteAndMoreTakesNone(t *testing.T) {
	c, err := parseRouted(`"POST /a:4"`, `{"name": "both", "key": ["route", "tenant"], "limit": 9}`)
	require.NoError(t, err)
	require.Len(t, c.Pools, 2)
	require.Equal(t, "route", c.Pools[0].Name)
	require.Nil(t, c.Pools[1].Keys)
}

func TestRouteLimitRefusals(t *testing.T) {
	for name, c := range map[string]struct{ routes, pools, says string }{
		"a pool of that name":        {`"POST /a:4"`, `{"name": "route", "limit": 1}`, `another pool has that name`},
		"two limits for one route":   {`"POST /a:4"`, `{"name": "p", "key": ["route"], "limit": 1, "keys": {"POST /a": {"limit": 2}}}`, `two limits for the route "POST /a"`},
		"the same limit twice":       {`"POST /a:4"`, `{"name": "p", "key": ["route"], "limit": 1, "keys": {"POST /a": {"limit": 4}}}`, `two limits for the route "POST /a"`},
		"a group that disagrees":     {`"POST /a:4@g", "POST /b:5@g"`, gatewayPool, `disagrees`},
		"a group limited by halves":  {`"POST /a:4@g", "POST /b@g"`, gatewayPool, `disagrees`},
		"a negative limit":           {`"POST /a:-1"`, gatewayPool, `has no limit after ':'`},
		"a fraction":                 {`"POST /a:1.5"`, gatewayPool, `has no limit after ':'`},
		"none":                       {`"POST /a:"`, gatewayPool, `has no limit after ':'`},
		"more than any limit can be": {`"POST /a:1000001"`, gatewayPool, `has no limit after ':'`},
		"more than 64 bits":          {`"POST /a:18446744073709551617"`, gatewayPool, `has no limit after ':'`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseRouted(c.routes, c.pools)
			require.ErrorContains(t, err, c.says)
		})
	}
}

// The most routes that there can be may all have limits, whatever max_keys is, since these keys are configured.
func TestThousandRouteLimits(t *testing.T) {
	var routes []string
	for i := range 1000 {
		routes = append(routes, fmt.Sprintf(`"POST /r%d:%d"`, i, i))
	}
	c, err := config.Parse([]byte(`{"max_keys": 1, "routes": [` + strings.Join(routes, ",") + `], "pools": [` + gatewayPool + `]}`))
	require.NoError(t, err)
	require.Len(t, c.Pools[0].Keys, 1000)
	require.Equal(t, 999, c.Pools[0].Keys["POST /r999"])
}
