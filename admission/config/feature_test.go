package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestConfigRefusesWhatIsNotBuilt(t *testing.T) {
	for _, c := range []struct{ config, field string }{
		{withJSON(`"stage": "admin"`), "stage"},
	} {
		_, err := parse([]byte(c.config))
		require.NoError(t, err, c.config)
		_, err = Parse([]byte(c.config))
		require.EqualError(t, err, c.field+": is not built into this version yet", c.config)
	}
}
