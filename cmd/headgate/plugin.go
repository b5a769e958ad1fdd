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
	Model  []pluginSource `json:"model"`
}

type pluginSource struct {
	Header  string `json:"header"`
	Trusted bool   `json:"trusted,omitempty"`
}

type pluginDeadline struct {
	Headers []string `json:"headers"`
}

type pluginPool struct {
	Name    string `json:"name" yaml:"name"`
	Limit   int    `json:"limit" yaml:"limit"`
	Queue   int    `json:"queue" yaml:"queue"`
	MaxWait string `json:"max_wait" yaml:"max_wait"`
}

// pools are the limits that the gateway's flags ask for.
func (g *gateway) pools() []pluginPool {
	return []pluginPool{{"gateway", g.concurrency, g.queue, g.queueTimeout.String()}}
}

// plugin returns template, the plugin configuration of envoy.yaml, with the gateway's values.
func (g *gateway) plugin(template string) (string, error) {
	var config pluginConfig
	decoder := json.NewDecoder(bytes.NewReader([]byte(template)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&config); err != nil {
		return "", fmt.Errorf("the plugin configuration to edit: %w", err)
	}
	config.Pools = g.pools()
	if !g.bind.Addr().IsLoopback() {
		config.Identity.Tenant = nil // from outside this machine, a tenant header is anyone's word
	}
	text, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return "", err
	}
	if _, err := admission.ParseConfig(text); err != nil {
		return "", fmt.Errorf("these flags make no plugin configuration: %w", err)
	}
	return string(text) + "\n", nil
}
