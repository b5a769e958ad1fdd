package admission

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestConfigRefusesWhatIsNotBuilt(t *testing.T) {
	for _, c := range []struct{ config, field string }{
		{withJSON(`"mode": "shadow"`), "mode"},
		{withJSON(`"stage": "invocation"`), "stage"},
		{withJSON(`"stage": "attempt"`), "stage"},
		{withJSON(`"stage": "admin"`), "stage"},
		{withJSON(`"routes": ["/a", "/b:5"]`), "routes[1]"},
		{withJSON(`"routes": ["/a@g"]`), "routes[0]"},
		{identityJSON(`"aliases": {"a": "b"}`), "identity.aliases"},
		{identityJSON(`"tenant": [{"value": "x"}, {"metadata": ["a", "b"]}]`), "identity.tenant[1].metadata"},
		{identityJSON(`"tenant": [{"peer_certificate": "subject"}]`), "identity.tenant[0].peer_certificate"},
		{identityJSON(`"class": [{"filter_state": "x"}]`), "identity.class[0].filter_state"},
		{identityJSON(`"model": [{"json_body": "model"}]`), "identity.model[0].json_body"},
		{identityJSON(`"model": [{"metadata": ["a", "b"]}]`), "identity.model[0].metadata"},
		{poolJSON(`"limit": 1, "per": "attempt"`), "pools[0].per"},
		{poolJSON(`"limit": 1, "match": {"class": ["x"]}`), "pools[0].match"},
		{poolJSON(`"limit": 1, "min_active": 1`), "pools[0].min_active"},
		{poolJSON(`"limit": 1, "hold": {"failure": "1s"}`), "pools[0].hold"},
		{poolJSON(`"limit": 1, "breaker": {}`), "pools[0].breaker"},
		{poolJSON(`"limit": 1, "headroom": {}`), "pools[0].headroom"},
	} {
		_, err := parse([]byte(c.config))
		require.NoError(t, err, c.config)
		_, err = ParseConfig([]byte(c.config))
		require.EqualError(t, err, c.field+": is not built into this version yet", c.config)
	}
}
