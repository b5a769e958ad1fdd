package config

import (
	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/internal/text"
)

// The fields of a pool, of its breaker and of its headroom, in the order of their rules.
const (
	poolName = iota
	poolLimit
	poolQueue
	poolMaxWait
	poolPer
	poolKey
	poolKeys
	poolFairBy
	poolWeights
	poolMatch
	poolMinActive
	poolHold
	poolBreaker
	poolHeadroom
	poolFields
)

const (
	breakerFieldFailures = iota
	breakerFieldWindow
	breakerFieldOpen
	breakerFieldMaxOpen
	breakerFieldPenalty
	breakerFieldMaxPenalty
	breakerFields
)

const (
	headroomMode = iota
	headroomWindow
	headroomMin
	headroomFields
)

var (
	dimensionNames = []string{"tenant", "model", "route", "class"} // in the order of the constants

	// reservedPools are names that stats beside the pools' have.
	reservedPools = []string{"ungoverned", "ambiguous_identity", "bad_deadline", "config_rejected"}
)

var poolRule = rule{form: formObject, then: (*Config).parsePool, fields: []rule{
	poolName:    {name: "name", form: formName, required: true, more: "_-", then: (*Config).checkPool},
	poolLimit:   {name: "limit", form: formInteger, required: true, most: admission.MaxLimit},
	poolQueue:   {name: "queue", form: formInteger, most: maxQueue},
	poolMaxWait: {name: "max_wait", form: formDuration, most: longest, absent: int64(5 * admission.Second)},
	poolPer:     {name: "per", form: formChoice, words: []string{"invocation", "attempt"}},
	poolKey: {name: "key", form: formArray, most: int64(dimensionCount),
		each: &rule{form: formChoice, unique: true, words: dimensionNames}},
	poolKeys:   {name: "keys", form: formMap, each: &rule{form: formObject, fields: keyRules}, then: (*Config).checkPool},
	poolFairBy: {name: "fair_by", form: formChoice, words: []string{"tenant"}},
	poolWeights: {name: "weights", form: formMap, each: &rule{form: formInteger, least: 1, most: maxWeight},
		then: (*Config).checkPool},
	poolMatch:     {name: "match", form: formObject, fields: matchRules},
	poolMinActive: {name: "min_active", form: formInteger, limitedBy: limitedByPool},
	poolHold:      {name: "hold", form: formObject, fields: holdRules},
	poolBreaker:   {name: "breaker", form: formObject, fields: breakerRules},
	poolHeadroom:  {name: "headroom", form: formObject, fields: headroomRules},
}}

var keyRules = []rule{{name: "limit", form: formInteger, required: true, most: admission.MaxLimit}}

var matchRules = []rule{ // in the order of the dimensions
	{name: "tenant", form: formArray, least: 1, most: maxValues, each: &textRule},
	{name: "model", form: formArray, least: 1, most: maxValues, each: &textRule},
	{name: "route", form: formArray, least: 1, most: maxValues, each: &textRule},
	{name: "class", form: formArray, least: 1, most: maxValues, each: &textRule},
}

var holdRules = []rule{
	{name: "success", form: formDuration, most: longestHold},
	{name: "cancel", form: formDuration, most: longestHold},
	{name: "failure", form: formDuration, most: longestHold},
}

// max_open and max_penalty are never below open and penalty. Where only the smaller one is given, that may raise the
// default of the larger one.
var breakerRules = []rule{
	breakerFieldFailures: {name: "failures", form: formInteger, least: 1, most: maxFailures, absent: 5},
	breakerFieldWindow: {name: "window", form: formDuration, least: shortest, most: longest,
		absent: int64(30 * admission.Second)},
	breakerFieldOpen: {name: "open", form: formDuration, least: shortest, most: longest,
		absent: int64(10 * admission.Second)},
	breakerFieldMaxOpen: {name: "max_open", form: formDuration, least: shortest, most: longest,
		absent: int64(120 * admission.Second), notBelow: breakerFieldOpen},
	breakerFieldPenalty: {name: "penalty", form: formDuration, most: longestHold, absent: int64(2 * admission.Second)},
	breakerFieldMaxPenalty: {name: "max_penalty", form: formDuration, most: longestHold,
		absent: int64(60 * admission.Second), notBelow: breakerFieldPenalty},
}

// min is at most the pool's limit, and so 0 in a pool that is closed.
var headroomRules = []rule{
	headroomMode: {name: "mode", form: formChoice, words: []string{"step", "aimd"}},
	headroomWindow: {name: "window", form: formDuration, least: shortest, most: longest,
		absent: int64(30 * admission.Second)},
	headroomMin: {name: "min", form: formInteger, limitedBy: limitedByOuter, least: 1, absent: 1},
}

// checkPool checks what the rule of a pool's field can't say.
func (*Config) checkPool(n *node) *Error {
	pool, problem := n.parent, ""
	switch n.name {
	case "name":
		if indexWord(reservedPools, n.text) >= 0 {
			return n.refuseValue("is the name of a counter of Headgate's own")
		}
	case "keys":
		count, most := n.count(), int(pool.parent.parent.fields[rootMaxKeys].number)
		if pool.fields[poolKey].node.count() != 1 {
			problem = "needs a key of one dimension, which says what the keys are"
		} else if count > most {
			problem = text.Around(text.Around("has ", count, " keys, more than max_keys ("), most, ")")
		}
	case "weights":
		if pool.fields[poolFairBy].node == nil {
			problem = `needs fair_by: "tenant"`
		}
	}
	if problem == "" {
		return nil
	}
	return n.refuse(problem)
}

// parsePool stores a pool. It refuses one whose name, as part of a stat's, is also another pool's.
func (c *Config) parsePool(n *node) *Error {
	f := n.fields[:poolFields]
	name := f[poolName].node
	for i := range c.Pools {
		if sameStat(c.Pools[i].Name, name.text) {
			return name.refuseValue("is the name of another pool")
		}
	}
	p := Pool{
		Name: name.text, Limit: int(f[poolLimit].number), Queue: int(f[poolQueue].number),
		MaxWait: admission.Duration(f[poolMaxWait].number), Per: Per(f[poolPer].number), Keys: f[poolKeys].node.numbers(),
		FairBy: f[poolFairBy].node != nil, Weights: f[poolWeights].node.numbers(),
		Shaping: admission.Shaping{MinActive: int(f[poolMinActive].number)},
	}
	if key := f[poolKey].node; key != nil {
		for e := key.first; e != nil; e = e.next {
			p.Key = append(p.Key, Dimension(e.number))
		}
	}
	if match := f[poolMatch].node; match != nil {
		for d := range match.fields {
			if values := match.fields[d].node; values != nil {
				p.Match = append(p.Match, Match{Dimension(d), values.texts()})
			}
		}
	}
	if hold := f[poolHold].node; hold != nil {
		f := hold.fields[:3]
		p.Hold = admission.Hold{Success: admission.Duration(f[0].number), Cancel: admission.Duration(f[1].number),
			Failure: admission.Duration(f[2].number)}
	}
	if breaker := f[poolBreaker].node; breaker != nil {
		f := breaker.fields[:breakerFields]
		p.Breaker = &admission.Breaker{
			Failures: int(f[breakerFieldFailures].number), Window: admission.Duration(f[breakerFieldWindow].number),
			Open: admission.Duration(f[breakerFieldOpen].number), MaxOpen: admission.Duration(f[breakerFieldMaxOpen].number),
			Penalty:    admission.Duration(f[breakerFieldPenalty].number),
			MaxPenalty: admission.Duration(f[breakerFieldMaxPenalty].number),
		}
	}
	if headroom := f[poolHeadroom].node; headroom != nil {
		f := headroom.fields[:headroomFields]
		p.Headroom = &admission.Headroom{AIMD: f[headroomMode].number == 1,
			Window: admission.Duration(f[headroomWindow].number), Min: int(f[headroomMin].number)}
	}
	c.Pools = append(c.Pools, p)
	return nil
}

// numbers returns the number of each name in keys or weights. A value is a number, or an object with the number as its
// one field.
//
//go:noinline
func (n *node) numbers() map[string]int {
	if n == nil {
		return nil
	}
	numbers := map[string]int{}
	for e := n.first; e != nil; e = e.next {
		number := e.number
		if e.kind == jsonObject {
			number = e.fields[0].number
		}
		numbers[e.name] = int(number)
	}
	return numbers
}

// sameStat reports whether the stats of two pools would have the same names in Prometheus, where a dash becomes an
// underscore.
func sameStat(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if a[i] != b[i] && (a[i] != '-' && a[i] != '_' || b[i] != '-' && b[i] != '_') {
			return false
		}
	}
	return true
}
