package cluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"
)

// A Key names what has a limit of its own: one key of a pool. A pool without keys has the one key "".
type Key struct {
	Pool string `json:"pool"`
	Key  string `json:"key"`
}

// A LeaseCall is what a replica says.
type LeaseCall struct {
	Domain  string `json:"domain"`
	Replica string `json:"replica"` // its name: another one for each process
	Call    int64  `json:"call"`    // greater with each call of this replica
	TTL     int64  `json:"ttl_ms"`  // how long the answer is good for
	Pools   []Ask  `json:"pools"`
}

// An Ask is what a replica says of one key.
type Ask struct {
	Key
	Limit int64 `json:"limit"` // the fleet's, by the replica's configuration
	Keep  int64 `json:"keep"`  // the replica uses no more than this, and goes on to do so until it hears more
	Wants int64 `json:"wants"` // how many it could use now
}

// A LeaseReply is what the replica hears.
type LeaseReply struct {
	Pools []Answer `json:"pools"` // in the order of the call
	TTL   int64    `json:"ttl_ms"`
	// Learning is for how long grants don't grow, because the store is new and doesn't know yet who has permits. 0: they
	// do.
	Learning int64 `json:"learning_ms,omitempty"`
	// Expired is how many replicas' leases were found to have ended.
	Expired int `json:"-"`
}

// An Answer is what the replica hears of one key.
type Answer struct {
	Key
	Grant  int64 `json:"grant"`  // how many permits it may use
	Target int64 `json:"target"` // its share. It should use no more as soon as it can
	Safe   int64 `json:"safe"`   // how many it may use when it loses contact
}

// The bounds of a call.
const (
	MaxCallBytes    = 1 << 20 // of its text
	MaxPools        = 4096    // of its keys
	MaxNameBytes    = 64      // of a domain's and a pool's name
	MaxReplicaBytes = 128
	MaxKeyBytes     = 1024
	MaxCount        = 1_000_000 // of permits
	MaxCall         = 1<<53 - 1 // what every reader of JSON can hold
	MinTTL          = 1000
	MaxTTL          = 60_000
	MaxReplicas     = 4096 // of a domain
	MaxOverrides    = 4096 // of a domain
)

// ErrCall is in every error about a call's content.
var ErrCall = errors.New("")

// callError says what is wrong with a field.
func callError(field, problem string, values ...any) error {
	return fmt.Errorf("%s: "+problem+"%w", append(append([]any{field}, values...), ErrCall)...)
}

// ParseLeaseCall reads a call and checks it. Fields that it doesn't know are for a newer service, so it passes over
// them.
func ParseLeaseCall(text []byte) (*LeaseCall, error) {
	call := &LeaseCall{}
	if err := readJSON(text, call, false); err != nil {
		return nil, err
	}
	return call, call.check()
}

// readJSON reads one JSON value.
func readJSON(text []byte, into any, strict bool) error {
	if len(text) > MaxCallBytes {
		return callError("the body", "is longer than %d bytes", MaxCallBytes)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	if strict {
		decoder.DisallowUnknownFields()
	}
	err := decoder.Decode(into)
	if err == nil {
		if _, more := decoder.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("there is more behind the object")
		}
	}
	if err != nil {
		return callError("the body", "is not the JSON that is wanted: %v", err)
	}
	return nil
}

func (c *LeaseCall) check() error {
	switch {
	case !isName(c.Domain, MaxNameBytes):
		return nameError("domain", c.Domain, MaxNameBytes)
	case !isName(c.Replica, MaxReplicaBytes):
		return nameError("replica", c.Replica, MaxReplicaBytes)
	case c.Call < 1 || c.Call > MaxCall:
		return numberError("call", c.Call, 1, MaxCall)
	case c.TTL < MinTTL || c.TTL > MaxTTL:
		return numberError("ttl_ms", c.TTL, MinTTL, MaxTTL)
	case len(c.Pools) > MaxPools:
		return callError("pools", "has %d elements (want at most %d)", len(c.Pools), MaxPools)
	}
	seen := make(map[Key]bool, len(c.Pools))
	for i, ask := range c.Pools {
		if err := ask.check("pools[" + strconv.Itoa(i) + "]."); err != nil {
			return err
		}
		if seen[ask.Key] {
			return callError("pools["+strconv.Itoa(i)+"]", "names pool %q, key %q, which another element names too",
				ask.Pool, ask.Key.Key)
		}
		seen[ask.Key] = true
	}
	return nil
}

func (a *Ask) check(field string) error {
	if err := a.Key.check(field); err != nil {
		return err
	}
	for _, n := range []struct {
		name  string
		value int64
	}{{"limit", a.Limit}, {"keep", a.Keep}, {"wants", a.Wants}} {
		if n.value < 0 || n.value > MaxCount {
			return numberError(field+n.name, n.value, 0, MaxCount)
		}
	}
	return nil
}

func (k Key) check(field string) error {
	switch {
	case !isName(k.Pool, MaxNameBytes):
		return nameError(field+"pool", k.Pool, MaxNameBytes)
	case len(k.Key) > MaxKeyBytes:
		return callError(field+"key", "is %d bytes long (want at most %d)", len(k.Key), MaxKeyBytes)
	case !utf8.ValidString(k.Key):
		return callError(field+"key", "is not valid UTF-8")
	}
	return nil
}

// A LimitCall changes a limit of the fleet.
type LimitCall struct {
	Domain string `json:"domain"`
	Pool   string `json:"pool"`
	// Key is what the limit is for. Without it, it is for all keys of the pool that have none of their own.
	Key   *string `json:"key"`
	Limit *int64  `json:"limit"` // nil: what the replicas' configuration says
}

// ParseLimitCall reads a change of a limit and checks it. It accepts no field that it doesn't know: a person may have
// written it.
func ParseLimitCall(text []byte) (*LimitCall, error) {
	var fields map[string]json.RawMessage
	if err := readJSON(text, &fields, false); err != nil {
		return nil, err
	}
	if _, given := fields["limit"]; !given {
		return nil, callError("limit", "is missing (want a number, or null for what the configuration says)")
	}
	call := &LimitCall{}
	if err := readJSON(text, call, true); err != nil {
		return nil, err
	}
	key := Key{Pool: call.Pool}
	if call.Key != nil {
		key.Key = *call.Key
	}
	if err := CheckDomain(call.Domain); err != nil {
		return nil, err
	}
	if err := key.check(""); err != nil {
		return nil, err
	}
	if call.Limit != nil && (*call.Limit < 0 || *call.Limit > MaxCount) {
		return nil, numberError("limit", *call.Limit, 0, MaxCount)
	}
	return call, nil
}

// CheckDomain returns an error for a text that can't be a domain's name.
func CheckDomain(domain string) error {
	if isName(domain, MaxNameBytes) {
		return nil
	}
	return nameError("domain", domain, MaxNameBytes)
}

// isName reports whether s is 1 to most letters, digits and ._:-. So no name leaves the hash tag of Redis Cluster.
func isName(s string, most int) bool {
	for _, c := range []byte(s) {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if digit := '0' <= c && c <= '9'; !letter && !digit && c != '_' && c != '-' && c != '.' && c != ':' {
			return false
		}
	}
	return s != "" && len(s) <= most
}

func nameError(field, value string, most int) error {
	if len(value) > 2*most {
		value = value[:2*most] + "..."
	}
	return callError(field, `%q is not a name (want 1 to %d letters, digits and "_-.:")`, value, most)
}

func numberError(field string, value, least, most int64) error {
	return callError(field, "is %d (want %d to %d)", value, least, most)
}
