package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/headgate/headgate/envoy"
)

// The table of well-known calls is the same wherever it stands.
func TestWellKnownAPIsAreTheSameInEachPlace(t *testing.T) {
	want := wellKnownRoutes()
	var ungrouped []string
	for _, route := range want {
		ungrouped = append(ungrouped, strings.TrimSuffix(route, wellKnownGroup))
	}
	for _, filter := range []string{filterPath, tryPath, grpcTryPath} {
		var inFile pluginConfig
		text := at(t, string(envoy.Bootstrap), filter+"configuration/value")
		require.NoError(t, yaml.Unmarshal([]byte(text), &inFile))
		require.Equal(t, want, inFile.Routes, "envoy.yaml")
	}
	var plugin struct {
		Spec struct {
			PluginConfig pluginConfig `yaml:"pluginConfig"`
		}
	}
	require.NoError(t, yaml.Unmarshal(envoy.WasmPlugin, &plugin))
	require.Equal(t, ungrouped, plugin.Spec.PluginConfig.Routes, "wasmplugin.yaml")

	rows := runningRows(t, "| provider | calls, all of them `POST` |")
	require.Len(t, rows, len(modelAPIs))
	for i, api := range modelAPIs {
		calls := strings.ReplaceAll(strings.Join(api.calls, ", "), "POST ", "")
		require.Equal(t, []string{api.provider, calls}, rows[i], "docs/running.md")
	}
}

func TestPrintConfigShowsTheWellKnownAPIs(t *testing.T) {
	printed := printConfig(t)
	for stage := range printed.Plugin {
		require.Len(t, printed.at(t, stage).Routes, len(wellKnownRoutes()))
	}
}
