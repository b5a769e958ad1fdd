package dependencies

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestALicenceMustBeKnownAndAllowed(t *testing.T) {
	apache, err := os.ReadFile("../../LICENSE")
	require.NoError(t, err)
	ids, err := identify(string(apache))
	require.NoError(t, err)
	require.Equal(t, []string{"Apache-2.0"}, ids)
	for text, want := range map[string]string{
		"":                         "not the text of a well-known licence",
		"Do as you like with this": "not the text of a well-known licence",
		string(apache) + strings.Repeat("But never on a Sunday, and only with our word for it. ", 100): "not the text of a well-known licence",
		"This program is free software: you can redistribute it and/or modify it under the terms of the GNU General Public License " +
			"as published by the Free Software Foundation, either version 3 of the License, or (at your option) any later version.": "not among the allowed ones",
	} {
		_, err := identify(text)
		require.ErrorContains(t, err, want)
	}
}

func TestTextsAreThoseOfThePackagesAndAboveThem(t *testing.T) {
	dir := t.TempDir()
	for _, file := range []string{"LICENSE", "NOTICE.txt", "main.go", "license.go", "a/COPYING", "a/b/LICENCE-MIT", "c/LICENSE", "README"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(file), 0o600))
	}
	m := &Module{}
	for range 2 {
		require.NoError(t, m.addTexts(dir, filepath.Join(dir, "a", "b")))
	}
	var names []string
	for _, text := range m.Texts {
		require.Equal(t, text.Name, text.Text)
		names = append(names, text.Name)
	}
	require.ElementsMatch(t, []string{"LICENSE", "NOTICE.txt", "a/COPYING", "a/b/LICENCE-MIT"}, names)
	require.Error(t, m.addTexts(filepath.Join(dir, "c"), filepath.Join(dir, "a")))
}

func TestAModuleWithoutALicenceIsAnError(t *testing.T) {
	m := &Module{Path: "example.com/a", Version: "v1", Texts: []Text{{"AUTHORS", "me"}}}
	require.EqualError(t, m.identify(), "example.com/a@v1 has no licence")
}
