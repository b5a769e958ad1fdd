package config

import (
	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/internal/text"
)

// The most that a configuration may hold. The most that a limit may be is admission.MaxLimit.
const (
	maxKeysMost  = 16384
	maxQueue     = 100_000 // a longer queue would cost a worker too much time and memory: docs/rationale.md
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

// The bounds of durations. 0 is allowed where a rule's least is 0.
const (
	shortest = int64(admission.Millisecond)
	longest  = int64(24 * admission.Hour)

	longestHold = int64(admission.MaxHold)
)

// The fields of the configuration, in the order in which they are checked.
const (
	rootMode = iota
	rootStage
	rootDomain
	rootRoutes
	rootIdentity
	rootDeadline
	rootMaxKeys
	rootLease
	rootReapHold
	rootOnError
	rootAdmin
	rootPools
	rootFields
)

var rootRules = [rootFields]rule{
	rootMode:   {name: "mode", form: formChoice, words: []string{"enforce", "shadow", "disabled"}},
	rootStage:  {name: "stage", form: formChoice, words: []string{"request", "invocation", "attempt", "admin"}},
	rootDomain: {name: "domain", form: formName, more: "_-."},
	rootRoutes: {name: "routes", form: formArray, most: maxRoutes,
		each: &rule{form: formText, then: (*Config).storeRoute}},
	rootIdentity: {name: "identity", form: formObject, fields: identityRules},
	rootDeadline: {name: "deadline", form: formObject, fields: deadlineRules, then: (*Config).parseDeadline},
	rootMaxKeys:  {name: "max_keys", form: formInteger, least: 1, most: maxKeysMost, absent: 1024},
	rootLease: {name: "lease", form: formDuration, least: int64(admission.Second), most: int64(admission.Hour),
		absent: int64(5 * admission.Second)},
	rootReapHold: {name: "reap_hold", form: formDuration, most: longestHold},
	rootOnError:  {name: "on_error", form: formChoice, words: []string{"open", "closed"}},
	rootAdmin:    {name: "admin", form: formObject, fields: adminRules, then: (*Config).parseAdmin},
	rootPools:    {name: "pools", form: formArray, required: true, least: 1, most: maxPools, each: &poolRule},
}

var deadlineRules = []rule{
	{name: "headers", form: formArray, most: maxHeaders, each: &rule{then: (*Config).storeDeadlineHeader}},
	{name: "default", form: formDuration, most: longest},
}

var adminRules = []rule{{name: "expose", form: formBoolean}}

// parseAdmin stores who may reach the stage admin.
func (c *Config) parseAdmin(n *node) *Error {
	c.Admin.Expose = n.fields[0].number == 1
	return nil
}

var textRule = rule{form: formText}

// Parse reads a plugin configuration: strict JSON of at most 1 MiB, as docs/configuration.md describes it. Absent
// fields get their defaults. The error is a *Error about the first problem, and there is no Config then.
func Parse(data []byte) (*Config, error) {
	c := &Config{Domain: "default"}
	rules := rootRules
	root, err := parseJSON(data)
	if err == nil {
		if stage := root.member("stage"); stage != nil && stage.text == "admin" {
			rules[rootPools].required, rules[rootPools].least = false, 0
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
	for i := range c.Pools {
		c.Pools[i].ReapHold = admission.Duration(f[rootReapHold].number)
	}
	return c, nil
}

// parseDeadline stores the deadline of a request that names none.
func (c *Config) parseDeadline(n *node) *Error {
	c.Deadline.Default = admission.Duration(n.fields[1].number)
	return nil
}

var (
	deadlineNameRule   = rule{form: formHeader}
	deadlineHeaderRule = rule{form: formObject, fields: []rule{
		{name: "header", form: formHeader, required: true},
		{name: "unit", form: formChoice, words: []string{"ms", "s"}},
	}}
)

// storeDeadlineHeader stores a header of deadlines: its name, or an object that also says the unit of bare numbers.
func (c *Config) storeDeadlineHeader(n *node) *Error {
	h, name := DeadlineHeader{}, n
	if n.kind == jsonObject {
		if err := c.check(n, &deadlineHeaderRule, 0, 0); err != nil {
			return err
		}
		name, h.Seconds = n.fields[0].node, n.fields[1].number == 1
	} else if err := c.check(n, &deadlineNameRule, 0, 0); err != nil {
		return err
	}
	h.Name = text.ChangeCase(name.text, text.ToLower)
	for i := range c.Deadline.Headers {
		if c.Deadline.Headers[i].Name == h.Name {
			return name.refuseValue("is there twice")
		}
	}
	if h.Seconds && h.Name == "grpc-timeout" {
		return name.refuseValue(`has units of its own (want no "unit" beside it)`)
	}
	c.Deadline.Headers = append(c.Deadline.Headers, h)
	return nil
}
