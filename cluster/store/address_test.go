package store

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAddresses(t *testing.T) {
	for url, want := range map[string]struct {
		Address
		shown string
	}{
		"redis://h":                     {Address{Hosts: []string{"h:6379"}}, "redis://h:6379/0"},
		"redis://h:1/2":                 {Address{Hosts: []string{"h:1"}, Database: 2}, "redis://h:1/2"},
		"redis://[::1]:1":               {Address{Hosts: []string{"[::1]:1"}}, "redis://[::1]:1/0"},
		"redis://[::1]":                 {Address{Hosts: []string{"[::1]:6379"}}, "redis://[::1]:6379/0"},
		"rediss://u:p%40%2F@h":          {Address{Hosts: []string{"h:6379"}, TLS: true, Username: "u", Password: "p@/"}, "rediss://h:6379/0"},
		"redis://:p/w@h":                {Address{Hosts: []string{"h:6379"}, Password: "p/w"}, "redis://h:6379/0"},
		"redis+sentinel://a,b:2/mine/3": {Address{Hosts: []string{"a:26379", "b:2"}, Master: "mine", Database: 3}, "redis+sentinel://a:26379,b:2/mine/3"},
		"rediss+cluster://u@a,b:2":      {Address{Hosts: []string{"a:6379", "b:2"}, TLS: true, Cluster: true, Username: "u"}, "rediss+cluster://a:6379,b:2"},
	} {
		got, err := ParseAddress(url)
		require.NoError(t, err, url)
		require.Equal(t, want.Address, got, url)
		require.Equal(t, want.shown, got.String(), url)
	}
	for url, want := range map[string]string{
		"":                       wantedURL,
		"h:6379":                 wantedURL,
		"http://h":               wantedURL,
		"redis+other://h":        wantedURL,
		"redis://":               `"" is no HOST:PORT: ` + wantedURL,
		"redis://h:x":            `"h:x" is no HOST:PORT: ` + wantedURL,
		"redis://h:65536":        `"h:65536" is no HOST:PORT: ` + wantedURL,
		"redis://h?db=1":         `"h?db=1" is no HOST:PORT: ` + wantedURL,
		"redis://h,i":            "there are several hosts: " + wantedURL,
		"redis://h/x":            `"x" is no number of a database`,
		"redis://h/-1":           `"-1" is no number of a database`,
		"redis+cluster://h/1":    `a cluster has no database: leave out "/1"`,
		"redis+sentinel://h":     "the master's name is missing: want redis+sentinel://HOST:PORT/MASTER",
		"redis+sentinel://h/m/x": `"x" is no number of a database`,
		"redis://u:hush%zz@h":    "the user or the password has a % that escapes nothing (want %25)",
	} {
		_, err := ParseAddress(url)
		require.EqualError(t, err, want, url)
	}
}
