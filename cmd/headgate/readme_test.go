package main

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/admission/config"
)

func TestREADMEShowsWhatTheToolDoes(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	readme := string(text)

	shown := regexp.MustCompile("(?s)```json\n(.*?)```").FindStringSubmatch(readme)
	require.NotNil(t, shown)
	_, err = config.Parse([]byte(shown[1]))
	require.NoError(t, err)

	plan := parsedRun(t)
	plan.upstream = &upstream{host: "127.0.0.1", port: 1}
	const url = "http://127.0.0.1:10000"
	for _, shown := range []string{
		plan.limitsLine(), plan.governed(), plan.retries.describe("enforce"), plan.curl(url), sampleBurst(url),
	} {
		require.Contains(t, readme, shown)
	}
}

func TestREADMELinksLeadSomewhere(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	links := regexp.MustCompile(`\]\(([^)#:]+)\)`).FindAllStringSubmatch(string(text), -1)
	require.NotEmpty(t, links)
	for _, link := range links {
		_, err := os.Stat("../../" + link[1])
		require.NoError(t, err)
	}
}
