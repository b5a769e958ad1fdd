package main

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/headgate/headgate/admission"
)

// A pluginConfig is the part of the plugin configuration that envoy.yaml has, in its order.
type pluginConfig struct {
	Mode     string         `json:"mode"`
	Stage    string         `json:"stage"`
	Routes   []string       `json:"routes"`
	Identity pluginIdentity `json:"identity"`
	Deadline pluginDeadline `json:"deadline"`
	Pools    []pluginPool   `json:"pools"`
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

// pools are the limits that the gateway's flags ask for. A request asks them in this order: while it waits for its route it
// keeps nobody of another route out of the common pool.
//
// With retries each try has a permit of its own, in a pool as large as its route's: what comes of a try is known there, and
// only there. The long queue stays in front of the router all the same. A try that waits holds an upstream connection, which
// many a provider closes within seconds when nothing comes on it; the try would fail, and queue again at the end.
func (g *gateway) pools() []pluginPool {
	wait := short(g.queueTimeout)
	route := pluginPool{Name: "route", Key: []string{"route"}, Limit: g.concurrency, Queue: g.queue, MaxWait: wait}
	if !g.retries.on() {
		g.shaping.protect(&route)
	}
	pools := []pluginPool{route}
	if g.global > 0 {
		pools = append(pools, pluginPool{Name: "gateway", Limit: g.global, Queue: g.queue, MaxWait: wait})
	}
	if g.retries.on() {
		try := pluginPool{Name: "upstream", Key: []string{"route"}, Per: "attempt", Limit: g.concurrency, Queue: g.greatestLimit(), MaxWait: wait}
		g.shaping.protect(&try)
		pools = append(pools, try)
	}
	return pools
}

// plugin returns template, the plugin configuration of envoy.yaml, with the gateway's values.
func (g *gateway) plugin(template string) (*pluginConfig, error) {
	var config pluginConfig
	decoder := json.NewDecoder(bytes.NewReader([]byte(template)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&config); err != nil {
		return nil, fmt.Errorf("the plugin configuration to edit: %w", err)
	}
	config.Routes = g.routes(config.Routes)
	if !g.bind.Addr().IsLoopback() {
		config.Identity.Tenant = nil // from outside this machine, a tenant header is anyone's word
	}
	return g.parse(config)
}

// parse gives a configuration the gateway's pools and has it read as the module will read it.
func (g *gateway) parse(config pluginConfig) (*pluginConfig, error) {
	config.Pools = g.pools()
	if _, err := admission.ParseConfig([]byte(config.at(config.Stage))); err != nil {
		return nil, g.explain(err)
	}
	return &config, nil
}

// at is the configuration of a stage, as text.
func (c *pluginConfig) at(stage string) string {
	staged := *c
	staged.Stage = stage
	return indented(staged)
}

// indented is a value of ours as JSON that people read.
func indented(value any) string {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		panic(err) // structs, strings and numbers
	}
	return text.String()
}
