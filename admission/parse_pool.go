package admission

import (
	"slices"
	"strconv"
)

var (
	dimensionNames = []string{"tenant", "model", "route", "class"} // in the order of the constants
	perNames       = []string{"invocation", "attempt"}
	headroomModes  = []string{"step", "aimd"}

	// reservedPools are the counters beside the pools' own stats.
	reservedPools = []string{"ungoverned", "ambiguous_identity", "bad_deadline", "config_rejected"}
)

// parsePools reads the pools into c, which has its stage and max_keys already.
func parsePools(o *object, c *Config) {
	f, ok := o.get("pools")
	if !ok {
		if c.Stage != StageAdmin {
			o.need("pools")
		}
		return
	}
	least := 1
	if c.Stage == StageAdmin {
		least = 0
	}
	for _, e := range f.array(least, maxPools) {
		p := parsePool(e.object(), c.MaxKeys)
		for i := range c.Pools {
			if p.Name != "" && sameStat(c.Pools[i].Name, p.Name) {
				e.add(e.path+".name", quoteValue(p.Name)+" is the name of another pool")
			}
		}
		c.Pools = append(c.Pools, p)
	}
}

// sameStat reports whether two pools' stats would have one name: Prometheus has no dash in names, and gets an underscore.
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

func parsePool(o *object, maxKeys int) Pool {
	p := Pool{MaxWait: 5 * Second}
	if f, ok := o.need("name"); ok {
		p.Name = parsePoolName(f)
	}
	if f, ok := o.need("limit"); ok {
		p.Limit, _ = f.integer(0, MaxLimit)
	}
	o.integer("queue", 0, MaxLimit, &p.Queue)
	o.duration("max_wait", anySpan, &p.MaxWait)
	choose(o, "per", perNames, &p.Per)
	parsePoolKey(o, &p, maxKeys)
	parseFairness(o, &p)
	if f, ok := o.get("match"); ok {
		p.Match = parseMatch(f.object())
	}
	o.integer("min_active", 0, p.Limit, &p.MinActive)
	parseFailures(o, &p)
	o.done()
	return p
}

func parsePoolName(f field) string {
	name, ok := f.name("_-")
	if ok && slices.Contains(reservedPools, name) {
		f.refuse("is the name of a counter of Headgate's own")
	}
	return name
}

func parsePoolKey(o *object, p *Pool, maxKeys int) {
	if f, ok := o.get("key"); ok {
		for _, e := range f.array(0, len(dimensionNames)) {
			i, ok := e.choice(dimensionNames)
			if ok && slices.Contains(p.Key, Dimension(i)) {
				e.refuse("is there twice")
			}
			p.Key = append(p.Key, Dimension(i))
		}
	}
	f, ok := o.get("keys")
	if !ok {
		return
	}
	p.Keys = parseKeys(f)
	if len(p.Key) != 1 {
		f.fail("needs a key of one dimension, which says what the keys are")
	}
	if len(p.Keys) > maxKeys {
		f.fail("has " + strconv.Itoa(len(p.Keys)) + " keys, more than max_keys (" + strconv.Itoa(maxKeys) + ")")
	}
}

func parseKeys(f field) map[string]int {
	keys := map[string]int{}
	for _, e := range f.entries() {
		o := e.object()
		if limit, ok := o.need("limit"); ok {
			keys[e.name], _ = limit.integer(0, MaxLimit)
		}
		o.done()
	}
	return keys
}

func parseFairness(o *object, p *Pool) {
	if f, ok := o.get("fair_by"); ok {
		_, p.FairBy = f.choice([]string{"tenant"})
	}
	f, ok := o.get("weights")
	if !ok {
		return
	}
	if p.Weights = parseWeights(f); !p.FairBy {
		f.fail(`needs fair_by: "tenant"`)
	}
}

func parseWeights(f field) map[string]int {
	weights := map[string]int{}
	for _, e := range f.entries() {
		weights[e.name], _ = e.integer(1, maxWeight)
	}
	return weights
}

func parseMatch(o *object) (matches []Match) {
	for d, name := range dimensionNames {
		if f, ok := o.get(name); ok {
			matches = append(matches, Match{Dimension(d), parseTexts(f, maxValues)})
		}
	}
	o.done()
	return matches
}

// parseTexts is the strings of an array of 1 to most of them.
func parseTexts(f field, most int) (texts []string) {
	for _, e := range f.array(1, most) {
		s, _ := e.text()
		texts = append(texts, s)
	}
	return texts
}

// parseFailures reads what follows the end of a request: holds, breaker and headroom.
func parseFailures(o *object, p *Pool) {
	if f, ok := o.get("hold"); ok {
		h := f.object()
		h.duration("success", holdSpan, &p.Hold.Success)
		h.duration("cancel", holdSpan, &p.Hold.Cancel)
		h.duration("failure", holdSpan, &p.Hold.Failure)
		h.done()
	}
	if f, ok := o.get("breaker"); ok {
		p.Breaker = parseBreaker(f.object())
	}
	if f, ok := o.get("headroom"); ok {
		p.Headroom = parseHeadroom(f.object(), p.Limit)
	}
}

// parseBreaker reads a breaker. Where only the smaller of a pair is given, the default of the larger one gives way.
func parseBreaker(o *object) *Breaker {
	b := &Breaker{Failures: 5, Window: 30 * Second, Open: 10 * Second, Penalty: 2 * Second}
	o.integer("failures", 1, maxFailures, &b.Failures)
	o.duration("window", positiveSpan, &b.Window)
	o.duration("open", positiveSpan, &b.Open)
	b.MaxOpen = max(120*Second, b.Open)
	o.duration("max_open", span{max(b.Open, Millisecond), positiveSpan.most}, &b.MaxOpen)
	o.duration("penalty", anySpan, &b.Penalty)
	b.MaxPenalty = max(60*Second, b.Penalty)
	o.duration("max_penalty", span{b.Penalty, anySpan.most}, &b.MaxPenalty)
	o.done()
	return b
}

// parseHeadroom reads the headroom of a pool with that limit. A pool that is closed has none to keep.
func parseHeadroom(o *object, limit int) *Headroom {
	h := &Headroom{Window: 30 * Second, Min: min(1, limit)}
	var mode uint8
	choose(o, "mode", headroomModes, &mode)
	h.AIMD = mode == 1
	o.duration("window", positiveSpan, &h.Window)
	o.integer("min", min(1, limit), limit, &h.Min)
	o.done()
	return h
}
