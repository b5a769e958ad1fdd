package envoy_test

import (
	"os"
	"testing"

	"github.com/headgate/headgate/envoy/rig"
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m)) }
