package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/admission/config"
)

// The tests of package config hold the schema to the parser.
func TestSchemaPrintsTheSchema(t *testing.T) {
	status, out, errs := call("", "schema")
	require.Equal(t, 0, status, errs)
	want, err := json.Marshal(config.JSONSchema())
	require.NoError(t, err)
	require.JSONEq(t, string(want), out)
	require.Contains(t, out, `"$schema": "https://json-schema.org/draft/2020-12/schema"`)
}
