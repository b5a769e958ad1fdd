package config

import (
	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/internal/text"
)

// What a configuration may hold at most. A limit is checked against MaxLimit wherever it comes from.
const (
	maxKeysMost  = 16384
	maxWeight    = 1000
	maxFailures  = 1000
	maxBodyBytes = 1 << 20
	maxPools     = 256
	maxRoutes    = 1000
	maxSources   = 16 // of one dimension
	maxHeaders   = 8  // of deadline.headers
	maxMetadata  = 8  // keys below a metadata namespace
	maxValues    = 1024
	maxNameBytes = 64       // of a pool's name, a domain, a group
	maxTextBytes = MaxValue // of a key value, a model name, a header's name, a pattern
)

// What duration fields may hold. Below 1 ms only 0 is a duration here.
const (
	shortest = int64(admission.Millisecond)
	longest  = int64(24 * admission.Hour)

	longestHold = int64(admission.MaxHold)
)

// The fields of the configuration, and of its deadline.
const (
	rootMode = iota
	rootStage
	rootDomain
	rootRoutes
	rootIdentity
	rootDeadline
	rootMaxKeys
	rootLease
	rootOnError
	rootPools
	rootFields
)

var rootRules = [rootFields]rule{
	rootMode:     {name: "mode", form: formChoice, words: []string{"enforce", "shadow", "disabled"}},
	rootStage:    {name: "stage", form: formChoice, words: []string{"request", "invocation", "attempt", "admin"}},
	rootDomain:   {name: "domain", form: formName, more: "_-."},
	rootRoutes:   {name: "routes", form: formArray, most: maxRoutes, each: &rule{form: formText, then: (*Config).storeRoute}},
	rootIdentity: {name: "identity", form: formObject, fields: identityRules},
	rootDeadline: {name: "deadline", form: formObject, fields: deadlineRules, then: (*Config).parseDeadlineSource},
	rootMaxKeys:  {name: "max_keys", form: formInteger, least: 1, most: maxKeysMost, absent: 1024},
	rootLease:    {name: "lease", form: formDuration, least: int64(admission.Second), most: int64(admission.Hour), absent: int64(5 * admission.Second)},
	rootOnError:  {name: "on_error", form: formChoice, words: []string{"open", "closed"}},
	rootPools:    {name: "pools", form: formArray, need: true, least: 1, most: maxPools, each: &poolRule},
}

var deadlineRules = []rule{
	{name: "headers", form: formArray, most: maxHeaders, each: &rule{form: formHeader, once: true}},
	{name: "default", form: formDuration, most: longest},
}

var textRule = rule{form: formText}

// Parse reads a plugin configuration: strict JSON of at most 1 MiB, as docs/configuration.md describes it. Absent
// fields have their defaults. A refusal is a *Error about the first problem; no part of the configuration is
// usable then.
func Parse(data []byte) (*Config, error) {
	c, err := parse(data)
	if err == nil {
		err = c.refuseUnbuilt()
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// parse is Parse without the refusal of features that are not built yet. Its error is nil or a Error.
func parse(data []byte) (*Config, error) {
	c := &Config{Domain: "default"}
	rules := rootRules
	root, err := parseJSON(data)
	if err == nil {
		if stage := root.member("stage"); stage != nil && stage.text == "admin" {
			rules[rootPools].need, rules[rootPools].least = false, 0
		}
		err = c.check(root, &rule{form: formObject, fields: rules[:]}, 0, 0)
	}
	if err == nil {
		err = c.limitRoutes()
	}
	if err != nil {
		return nil, err
	}
	f := root.fields[:rootFields]
	c.Mode = Mode(f[rootMode].number)
	c.Stage = Stage(f[rootStage].number)
	if domain := f[rootDomain].node; domain != nil {
		c.Domain = domain.text
	}
	c.MaxKeys = int(f[rootMaxKeys].number)
	c.Lease = admission.Duration(f[rootLease].number)
	c.OnError = OnError(f[rootOnError].number)
	return c, nil
}

func (c *Config) parseDeadlineSource(n *node) *Error {
	f := n.fields[:2]
	headers := f[0].node.texts()
	for i := range headers {
		headers[i] = text.OtherCase(headers[i], 'A')
	}
	c.Deadline = Deadline{headers, admission.Duration(f[1].number)}
	return nil
}
