package admission_test

import (
	"fmt"

	"github.com/headgate/headgate/admission"
)

// retuned lets an operator override the limit, once for each of the given limits; none takes the override away.
func retuned(limits ...int) func(*pool) {
	return func(p *pool) {
		for _, limit := range limits {
			o := admission.Override{Source: admission.FromKey, Limit: limit}
			if limit == none {
				o = admission.Override{}
			}
			p.poolConfig.retunes = append(p.poolConfig.retunes, o)
		}
		p.faults.retunes = len(limits)
	}
}

const none = -1

// beginLimit begins a turn that changes the limit: by a new configuration, by one that an earlier turn could not assert,
// or by an operator's next override.
func (p *pool) beginLimit(kind uint8, i int) {
	does := deedAssert
	switch kind {
	case actRaise:
		p.raises--
		p.limit = p.raise
	case actAssert:
		p.workers[i].asserts = false
	case actRetune:
		does = deedRetune
	}
	if p.begin(i, does); kind == actRetune {
		p.workers[i].turn.tune = p.poolConfig.retunes[len(p.poolConfig.retunes)-p.faults.retunes]
		p.faults.retunes--
	}
}

// checkOverride checks that the record has the override that was stored last, whoever has died and whatever was
// configured since (I9).
func (p *pool) checkOverride() error {
	limit, from, ok := admission.InForce(p.record)
	if is := (admission.Override{Source: from, Limit: limit}); ok && !is.IsSame(&p.override) {
		return fmt.Errorf("I9: override %v, and %v was stored", is, p.override)
	}
	return nil
}

// isClosed says whether the limit in force is 0.
func (p *pool) isClosed() bool {
	if p.override.Source != admission.FromConfig {
		return p.override.Limit == 0
	}
	return p.limit == 0
}

func overrideScopes() []scope {
	a, b := request{worker: 0, tenant: 1}, request{worker: 1, tenant: 2}
	raised := func(to int) func(*pool) {
		return func(p *pool) { p.raise, p.raises = to, 1 }
	}
	return []scope{
		{name: "limit 1 overridden with 2", states: 29058, start: func() system { return newPool(1, 4, faults{}, a, b, b).with(retuned(2)) }},
		{name: "limit 2 overridden with 1, and back", states: 14488, start: func() system { return newPool(2, 4, faults{}, a, b, b).with(retuned(1, none)).with(calm) }},
		{name: "limit 2 overridden with 0, and 1", states: 2742, start: func() system { return newPool(2, 4, faults{}, a, b).with(retuned(0, 1)) }},
		{name: "limit 1 overridden with 2, crash", states: 21399, start: func() system { return newPool(1, 4, faults{crashes: 1}, a, b, b).with(retuned(2)).with(calm) }},
		{name: "limit 1 overridden with 2, false death", states: 37122, start: func() system { return newPool(1, 4, faults{falseDeaths: 1}, a, b).with(retuned(2)).with(calm) }},
		{name: "limit 2 overridden with 1, configured as 3", states: 30666, start: func() system { return newPool(2, 4, faults{}, a, b, b).with(retuned(1)).with(raised(3)).with(calm) }},
		{name: "spares, overridden with 1", states: 14093, start: func() system { return newPool(5, 4, faults{}, a, a, b).with(sparing).with(retuned(1)).with(calm) }},
	}
}
