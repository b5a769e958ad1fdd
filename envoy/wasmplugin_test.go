package envoy_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"istio.io/api/extensions/v1alpha1"

	"github.com/headgate/headgate/admission/config"
	"github.com/headgate/headgate/envoy"
)

// A resource is a Kubernetes object around Istio's own message.
type resource struct {
	APIVersion string            `yaml:"apiVersion"`
	Kind       string            `yaml:"kind"`
	Metadata   map[string]string `yaml:"metadata"`
	Spec       map[string]any    `yaml:"spec"`
}

func TestWasmPluginIsWhatIstioTakes(t *testing.T) {
	var object resource
	require.NoError(t, yaml.Unmarshal(envoy.WasmPlugin, &object))
	require.Equal(t, "extensions.istio.io/v1alpha1", object.APIVersion)
	require.Equal(t, "WasmPlugin", object.Kind)
	require.NotEmpty(t, object.Metadata["name"])

	spec, err := json.Marshal(object.Spec)
	require.NoError(t, err)
	var plugin v1alpha1.WasmPlugin
	require.NoError(t, protojson.Unmarshal(spec, &plugin), "Istio's own reading of the spec, which refuses unknown fields")
	require.Equal(t, v1alpha1.FailStrategy_FAIL_RELOAD, plugin.FailStrategy)
	require.NotEmpty(t, plugin.Url)

	text, err := protojson.Marshal(plugin.PluginConfig) // what Istio hands to the module
	require.NoError(t, err)
	parsed, err := config.Parse(text)
	require.NoError(t, err)
	require.Equal(t, config.StageRequest, parsed.Stage)
}
