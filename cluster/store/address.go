package store

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// An Address says where Redis is.
type Address struct {
	Hosts    []string // host:port
	TLS      bool
	Cluster  bool
	Master   string // the name that Sentinel knows, or ""
	Database int
	Username string
	Password string
}

const wantedURL = "want redis://HOST:PORT/DATABASE, redis+sentinel://HOST:PORT,HOST:PORT/MASTER or " +
	"redis+cluster://HOST:PORT,HOST:PORT, with rediss in place of redis for TLS"

// ParseAddress reads a Redis URL. An error doesn't have the URL's password.
func ParseAddress(text string) (Address, error) {
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		return Address{}, errors.New(wantedURL)
	}
	a := Address{}
	var kind string
	switch protocol, more, _ := strings.Cut(scheme, "+"); {
	case protocol == "rediss":
		a.TLS, kind = true, more
	case protocol == "redis":
		kind = more
	default:
		return Address{}, errors.New(wantedURL)
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 { // a password may have a slash in it
		var err error
		if a.Username, a.Password, err = parseUser(rest[:at]); err != nil {
			return Address{}, err
		}
		rest = rest[at+1:]
	}
	authority, path, _ := strings.Cut(rest, "/")
	port := "6379"
	if kind == "sentinel" {
		port = "26379"
	}
	for host := range strings.SplitSeq(authority, ",") {
		address, err := hostAndPort(host, port)
		if err != nil {
			return Address{}, err
		}
		a.Hosts = append(a.Hosts, address)
	}
	return a, a.setKind(kind, path)
}

// setKind takes in what the kind of set-up says, and what the path says to it.
func (a *Address) setKind(kind, path string) (err error) {
	switch kind {
	case "":
		if len(a.Hosts) > 1 {
			return errors.New("there are several hosts: " + wantedURL)
		}
	case "cluster":
		a.Cluster = true
		if path != "" {
			return fmt.Errorf("a cluster has no database: leave out %q", "/"+path)
		}
	case "sentinel":
		if a.Master, path, _ = strings.Cut(path, "/"); a.Master == "" {
			return errors.New("the master's name is missing: want redis+sentinel://HOST:PORT/MASTER")
		}
	default:
		return errors.New(wantedURL)
	}
	if path != "" {
		if a.Database, err = strconv.Atoi(path); err != nil || a.Database < 0 {
			return fmt.Errorf("%q is no number of a database", path)
		}
	}
	return nil
}

// parseUser reads USER:PASSWORD. What it says of a mistake has neither.
func parseUser(text string) (name, password string, err error) {
	name, password, _ = strings.Cut(text, ":")
	name, err = url.PathUnescape(name)
	if err == nil {
		password, err = url.PathUnescape(password)
	}
	if err != nil {
		return "", "", errors.New("the user or the password has a % that escapes nothing (want %25)")
	}
	return name, password, nil
}

// hostAndPort is a host with its port, or with the usual one.
func hostAndPort(text, usual string) (string, error) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		host, port = strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"), usual
	}
	number, err := strconv.Atoi(port)
	if host == "" || err != nil || number < 1 || number > 65535 || strings.ContainsAny(host, "?#/ ") {
		return "", fmt.Errorf("%q is no HOST:PORT: %s", text, wantedURL)
	}
	return net.JoinHostPort(host, port), nil
}

// String is the address without the user and the password.
func (a Address) String() string {
	scheme, path := "redis", ""
	if a.TLS {
		scheme = "rediss"
	}
	switch {
	case a.Cluster:
		scheme += "+cluster"
	case a.Master != "":
		scheme += "+sentinel"
		path = "/" + a.Master
	}
	if !a.Cluster {
		path += "/" + strconv.Itoa(a.Database)
	}
	return scheme + "://" + strings.Join(a.Hosts, ",") + path
}

// Settings are what is not in the address.
type Settings struct {
	SentinelUsername, SentinelPassword string
	TLS                                *tls.Config // nil: without TLS
}

// The times that a call of Redis may take. A replica waits a second for its answer.
const (
	dialTime  = 500 * time.Millisecond
	replyTime = 500 * time.Millisecond
	poolSize  = 32
)

// Options are what the client library makes of an address.
func (a Address) Options(s Settings) *redis.UniversalOptions {
	return &redis.UniversalOptions{
		Addrs: a.Hosts, DB: a.Database,
		Username: a.Username, Password: a.Password, MasterName: a.Master, IsClusterMode: a.Cluster,
		SentinelUsername: s.SentinelUsername, SentinelPassword: s.SentinelPassword, TLSConfig: s.TLS,
		MaxRetries: 1, MinRetryBackoff: 20 * time.Millisecond, MaxRetryBackoff: 50 * time.Millisecond, MaxRedirects: 4,
		DialTimeout: dialTime, ReadTimeout: replyTime, WriteTimeout: replyTime, PoolTimeout: replyTime,
		DialerRetries: 1, ContextTimeoutEnabled: true, PoolSize: poolSize, MinIdleConns: 1, Protocol: 2,
		// A client's name, its identity and maintenance events need commands that a user need not have.
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}
