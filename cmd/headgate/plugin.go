package main

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/headgate/headgate/admission/config"
)

// A pluginConfig has the fields of the plugin configuration that envoy.yaml uses, in the same order.
type pluginConfig struct {
	Mode     string         `json:"mode"`
	Stage    string         `json:"stage"`
	Routes   []string       `json:"routes"`
	Identity pluginIdentity `json:"identity"`
	Deadline pluginDeadline `json:"deadline"`
	Pools    []pluginPool   `json:"pools"`
	Admin    *pluginAdmin   `json:"admin,omitempty"`
}

// A pluginAdmin says who may reach the admin listener.
type pluginAdmin struct {
	Expose bool `json:"expose"`
}

type pluginIdentity struct {
	Tenant []pluginSource `json:"tenant,omitempty"`
	Model  []pluginSource `json:"model,omitempty"`
}

type pluginSource struct {
	Header  string `json:"header"`
	Trusted bool   `json:"trusted,omitempty"`
}

type pluginDeadline struct {
	Headers []string `json:"headers,omitempty"`
}

type pluginPool struct {
	Name     string          `json:"name" yaml:"name"`
	Key      []string        `json:"key,omitempty" yaml:"key,omitempty,flow"`
	Per      string          `json:"per,omitempty" yaml:"per,omitempty"`
	Limit    int             `json:"limit" yaml:"limit"`
	Queue    int             `json:"queue" yaml:"queue"`
	MaxWait  string          `json:"max_wait,omitempty" yaml:"max_wait"`
	Hold     *pluginHold     `json:"hold,omitempty" yaml:"hold,omitempty"`
	Breaker  *pluginBreaker  `json:"breaker,omitempty" yaml:"breaker,omitempty"`
	Headroom *pluginHeadroom `json:"headroom,omitempty" yaml:"headroom,omitempty"`
}

type pluginHold struct {
	Success string `json:"success" yaml:"success"`
	Cancel  string `json:"cancel" yaml:"cancel"`
	Failure string `json:"failure" yaml:"failure"`
}

type pluginBreaker struct {
	Failures   int    `json:"failures" yaml:"failures"`
	Window     string `json:"window" yaml:"window"`
	Open       string `json:"open" yaml:"open"`
	MaxOpen    string `json:"max_open" yaml:"max_open"`
	Penalty    string `json:"penalty" yaml:"penalty"`
	MaxPenalty string `json:"max_penalty" yaml:"max_penalty"`
}

type pluginHeadroom struct {
	Window string `json:"window" yaml:"window"`
}

// pools are the pools that the gateway's flags ask for, in the order in which a request acquires them. The pool of the
// route comes before the common one: a request that waits for its own route then holds no permit that another route
// could use.
//
// With retries each try has a permit of its own, in a pool as large as the route's. Only there does Headgate see how
// each try ended. The long queue is still the route's, before Envoy's router. A try that waits has its upstream
// connection already, and many providers close a connection within seconds when nothing is sent on it. The try would
// then fail, and would have to go to the end of the queue.
//
// In shadow mode nothing holds a request back before its tries, so they come when no gateway that enforces would let
// them come, and a pool of tries would tell of waits that never were. Then the route's pool sees to all.
func (g *gateway) pools() []pluginPool {
	tries := g.retries.enabled() && g.mode != "shadow"
	wait := shortDuration(g.queueTimeout)
	route := pluginPool{Name: "route", Key: []string{"route"}, Limit: g.concurrency, Queue: g.queue, MaxWait: wait}
	if tries {
		g.shaping.addHoldsTo(&route) // so that who must wait for a hold's end waits without a connection
	} else {
		g.shaping.addTo(&route)
	}
	pools := []pluginPool{route}
	if g.global > 0 {
		pools = append(pools, pluginPool{Name: "gateway", Limit: g.global, Queue: g.queue, MaxWait: wait})
	}
	if tries {
		try := pluginPool{
			Name: "upstream", Key: []string{"route"}, Per: "attempt",
			Limit: g.concurrency, Queue: g.greatestLimit(), MaxWait: wait,
		}
		g.shaping.addTo(&try)
		pools = append(pools, try)
	}
	return pools
}

// plugin returns template, the plugin configuration of envoy.yaml, with the gateway's values.
func (g *gateway) plugin(template string) (*pluginConfig, error) {
	var cfg pluginConfig
	decoder := json.NewDecoder(bytes.NewReader([]byte(template)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&cfg); err != nil {
		return nil, fmt.Errorf("the plugin configuration to edit: %w", err)
	}
	cfg.Routes = g.routes()
	if !g.bind.Addr().IsLoopback() {
		cfg.Identity.Tenant = nil // a client on another machine could send any tenant header
	}
	cfg.Pools = g.pools()
	if g.mode != "" {
		cfg.Mode = g.mode
	}
	if g.admin.isExposed() { // whoever has it listen there wants it
		cfg.Admin = &pluginAdmin{Expose: true}
	}
	if _, err := config.Parse([]byte(cfg.textFor(cfg.Stage))); err != nil {
		return nil, g.explainRefusal(err)
	}
	return &cfg, nil
}

// textFor is the configuration as JSON, for one stage.
func (c *pluginConfig) textFor(stage string) string {
	staged := *c
	staged.Stage = stage
	return indentedJSON(staged)
}

// indentedJSON is a value that always has a JSON form, as JSON for people to read.
func indentedJSON(value any) string {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		panic(err) // callers pass structs, strings and numbers only
	}
	return text.String()
}
