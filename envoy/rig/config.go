package rig

import "maps"

// A Pool is one entry of the plugin's pools.
type Pool struct {
	Name    string         `json:"name"`
	Key     []string       `json:"key,omitempty"`
	Limit   int64          `json:"limit"`
	Queue   int64          `json:"queue,omitempty"`
	MaxWait string         `json:"max_wait,omitempty"`
	Keys    map[string]any `json:"keys,omitempty"`
	Per     string         `json:"per,omitempty"`
	Match   Object         `json:"match,omitempty"`
	FairBy  string         `json:"fair_by,omitempty"`
	Weights map[string]int `json:"weights,omitempty"`
}

// A Config is a plugin configuration in enforce mode. What is empty gets the value that most tests
// want: see object. More adds fields or, with nil, takes them away.
type Config struct {
	Pools  []Pool
	Domain string // "": the test's own
	More   Object
}

// defaultLease is long: in tests that are not about leases, a machine that lets Envoy stand still for a while must not
// be taken for a dead worker.
const defaultLease = "1m"

// Path is the governed path of the default configuration.
const Path = "/v1/chat/completions"

// object is the configuration as JSON will have it; name maps a pool's name to the one that this test alone uses.
func (c Config) object(stage, domain string, name func(string) string) Object {
	pools := make([]Pool, len(c.Pools))
	for i, p := range c.Pools {
		p.Name = name(p.Name)
		pools[i] = p
	}
	if c.Domain != "" {
		domain = c.Domain
	}
	object := Object{
		"mode":   "enforce",
		"stage":  stage,
		"domain": domain,
		"routes": []string{"/chat/completions"},
		"identity": Object{
			"tenant": []Object{{"header": "x-tenant", "trusted": true}},
			"model":  []Object{{"header": "x-model"}},
			"class":  []Object{{"header": "x-class", "trusted": true}},
		},
		"lease":    defaultLease,
		"deadline": Object{"headers": []string{"x-request-timeout-ms", "grpc-timeout"}},
		"pools":    pools,
	}
	maps.Copy(object, c.More)
	maps.DeleteFunc(object, func(_ string, v any) bool { return v == nil })
	return object
}
