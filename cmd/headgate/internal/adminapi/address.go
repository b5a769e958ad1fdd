package adminapi

import (
	"errors"
	"net/url"
	"strconv"
	"strings"
)

// Default is where `headgate run` has its admin listener unless told otherwise.
const Default = "http://127.0.0.1:10001"

var errAddress = errors.New("want http[s]://HOST:PORT, or HOST:PORT, e.g. 127.0.0.1:10001")

// ParseAddress returns the URL of an admin listener without a path: http://HOST:PORT. It takes HOST:PORT, too, and the
// address of the page as browsers show it. A listener behind a proxy may have a path of its own.
func ParseAddress(text string) (string, error) {
	hasScheme := strings.Contains(text, "://")
	if !hasScheme {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Hostname() == "" {
		return "", errAddress
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return "", errAddress
	}
	switch n, err := strconv.Atoi(u.Port()); {
	case u.Port() == "" && hasScheme && !strings.HasSuffix(u.Host, ":"): // the scheme's own, as with a proxy before it
	case err != nil || n < 1 || n > 65535:
		return "", errAddress
	}
	path := strings.TrimRight(u.Path, "/")
	path = strings.TrimSuffix(path, "/headgate")
	return u.Scheme + "://" + u.Host + path, nil
}
