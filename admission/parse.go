package admission

import "slices"

// What a configuration may hold at most. A limit is checked against MaxLimit wherever it comes from.
const (
	MaxLimit     = 1_000_000 // limit and queue, in requests; also a route's :N and a live limit
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

// What the duration fields may hold. Below 1 ms only 0 is a duration here.
var (
	anySpan      = span{0, 24 * Hour}
	positiveSpan = span{Millisecond, 24 * Hour}
	leaseSpan    = span{Second, Hour}
	holdSpan     = span{0, 10 * Minute}
)

// The words of a choice are in the order of its constants.
var (
	modeNames  = []string{"enforce", "shadow", "disabled"}
	stageNames = []string{"request", "invocation", "attempt", "admin"}
	errorNames = []string{"open", "closed"}
)

// ParseConfig reads a plugin configuration: strict JSON of at most 1 MiB, as docs/configuration.md describes it. Absent
// fields have their defaults. A refusal is a *ConfigError about the first problem; no part of the configuration is
// usable then.
func ParseConfig(data []byte) (*Config, error) {
	c, err := parse(data)
	if err == nil {
		err = c.refuseUnbuilt()
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// parse is ParseConfig without the refusal of features that are not built yet. Its error is nil or a ConfigError.
func parse(data []byte) (*Config, error) {
	v, err := parseJSON(data)
	if err != nil {
		return nil, err
	}
	found := &problems{}
	c := parseRoot((&field{value: v, problems: found}).object())
	if found.first != nil {
		return nil, found.first
	}
	return c, nil
}

func parseRoot(o *object) *Config {
	c := &Config{Domain: "default", MaxKeys: 1024, Lease: 5 * Second}
	choose(o, "mode", modeNames, &c.Mode)
	choose(o, "stage", stageNames, &c.Stage)
	if f, ok := o.get("domain"); ok {
		c.Domain, _ = f.name("_-.")
	}
	if f, ok := o.get("routes"); ok {
		c.Routes = parseRoutes(f)
	}
	if f, ok := o.get("identity"); ok {
		c.Identity = parseIdentity(f.object())
	}
	if f, ok := o.get("deadline"); ok {
		c.Deadline = parseDeadlineSource(f.object())
	}
	o.integer("max_keys", 1, maxKeysMost, &c.MaxKeys)
	o.duration("lease", leaseSpan, &c.Lease)
	choose(o, "on_error", errorNames, &c.OnError)
	parsePools(o, c)
	c.limitRoutes(o)
	o.done()
	return c
}

func parseDeadlineSource(o *object) (d Deadline) {
	if f, ok := o.get("headers"); ok {
		for _, e := range f.array(0, maxHeaders) {
			name, ok := e.header()
			if ok && slices.Contains(d.Headers, name) {
				e.refuse("is there twice")
			}
			d.Headers = append(d.Headers, name)
		}
	}
	o.duration("default", anySpan, &d.Default)
	o.done()
	return d
}
