package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each picture of the page and the terminal is there in light and dark, and its text tells what it shows.
func TestPicturesAreThereInLightAndDark(t *testing.T) {
	picture := regexp.MustCompile(`(?s)<picture>(.*?)</picture>`)
	form := regexp.MustCompile(`^
  <source media="\(prefers-color-scheme: dark\)" srcset="(\S+)-dark(\.\w+)">
  <img src="(\S+)-light(\.\w+)" alt="([^"]{40,})">
$`)
	found := 0
	for _, page := range pages(t) {
		for _, shown := range picture.FindAllStringSubmatch(read(t, page), -1) {
			parts := form.FindStringSubmatch(shown[1])
			require.NotNil(t, parts, "%s: %s", page, shown[1])
			require.Equal(t, parts[1]+parts[2], parts[3]+parts[4], page)
			for _, name := range []string{parts[1] + "-dark" + parts[2], parts[3] + "-light" + parts[4]} {
				_, err := os.Stat(filepath.Join(filepath.Dir(page), name))
				require.NoError(t, err, page)
			}
			found++
		}
	}
	require.GreaterOrEqual(t, found, 7)
}
