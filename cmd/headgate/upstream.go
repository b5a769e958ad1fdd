package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/net/idna"
)

// An upstream is the address of the model API behind the gateway.
type upstream struct {
	tls  bool
	host string // a lower-case name or an IP address, without brackets
	port uint16
	path string // a base path without its trailing slash, or ""
}

var errUpstreamForm = errors.New("want http://HOST[:PORT][/PATH] or https://HOST[:PORT][/PATH]")

func parseUpstream(text string) (*upstream, error) {
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" || u.Opaque != "" {
		return nil, errUpstreamForm
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.ForceQuery {
		return nil, fmt.Errorf("%w, without user, query or fragment (clients send their own credentials)", errUpstreamForm)
	}
	if strings.ContainsAny(u.Hostname(), " %,\"'") || strings.HasSuffix(u.Host, ":") {
		return nil, errUpstreamForm
	}
	host, err := asciiHost(u.Hostname())
	if err != nil {
		return nil, err
	}
	port, err := upstreamPort(u)
	if err != nil {
		return nil, err
	}
	path := strings.TrimRight(u.EscapedPath(), "/")
	return &upstream{tls: u.Scheme == "https", host: host, port: port, path: path}, nil
}

// internationalNames are names as clients look them up (UTS 46), with labels that DNS takes.
var internationalNames = idna.New(idna.MapForLookup(), idna.BidiRule(), idna.VerifyDNSLength(true))

// asciiHost is a host as DNS, TLS and HTTP name it: in lower case, and with the Punycode of a name that has other than
// ASCII characters.
func asciiHost(host string) (string, error) {
	if !strings.ContainsFunc(host, func(r rune) bool { return r > unicode.MaxASCII }) {
		return strings.ToLower(host), nil
	}
	ascii, err := internationalNames.ToASCII(host)
	if err != nil {
		return "", fmt.Errorf("%q is no domain name", host)
	}
	return ascii, nil
}

func upstreamPort(u *url.URL) (uint16, error) {
	text := u.Port()
	if text == "" {
		text = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 {
		return 0, fmt.Errorf("%s is not a port: want 1 to 65535", text)
	}
	return uint16(port), nil
}

// authority is the value of the Host header for the upstream. It names the port only where that isn't the scheme's
// default.
func (u *upstream) authority() string {
	schemePort := uint16(80)
	if u.tls {
		schemePort = 443
	}
	if u.port != schemePort {
		return net.JoinHostPort(u.host, strconv.Itoa(int(u.port)))
	}
	if strings.Contains(u.host, ":") {
		return "[" + u.host + "]"
	}
	return u.host
}

// isAddress reports whether the host is an IP address rather than a name to be resolved.
func (u *upstream) isAddress() bool {
	_, err := netip.ParseAddr(u.host)
	return err == nil
}

func (u *upstream) String() string {
	scheme := "http://"
	if u.tls {
		scheme = "https://"
	}
	return scheme + u.authority() + u.path
}
