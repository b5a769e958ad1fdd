package admission_test

// sparing lets workers keep spares. Only a limit of five or more makes a record calm.
func sparing(p *pool) { p.spares = true }

// together makes a number of the same requests come at once.
func together(n int, r request) (all []request) {
	for range n {
		all = append(all, r)
		r.joined = true
	}
	return all
}

func spareScopes() []scope {
	a, b, other := request{worker: 0, tenant: 1}, request{worker: 1, tenant: 2}, request{worker: 0, tenant: 4}
	both := func(n int, first ...request) []request { return append(first, together(n, b)...) }
	lowered := func(p *pool) { p.raise, p.raises = 1, 1 }
	return []scope{
		{name: "spares, limit 5", states: 77918, start: func() system { return newPool(5, 4, faults{}, both(5, a, a)...).with(sparing).with(calm) }},
		{name: "spares, no queue", states: 89580, start: func() system { return newPool(5, 0, faults{}, both(5, a, a)...).with(sparing).with(calm) }},
		{name: "spares, lost message", states: 7121, start: func() system { return newPool(5, 4, faults{losses: 1}, both(5, a)...).with(sparing).with(calm) }},
		{name: "spares, lost message, 7 tickets", big: true, start: func() system { return newPool(5, 4, faults{losses: 1}, both(5, a, a)...).with(sparing).with(calm) }},
		{name: "spares, crash, 7 tickets", big: true, start: func() system { return newPool(5, 4, faults{crashes: 1}, both(5, a, a)...).with(sparing).with(calm) }},
		{name: "spares, crash", states: 11452, start: func() system { return newPool(5, 4, faults{crashes: 1}, both(5, a)...).with(sparing).with(calm) }},
		{name: "spares, false death", states: 65151, start: func() system { return newPool(5, 4, faults{falseDeaths: 1}, a, a, b).with(sparing).with(calm) }},
		{name: "spares, false death, full", big: true, start: func() system { return newPool(5, 4, faults{falseDeaths: 1}, both(5, a)...).with(sparing).with(calm) }},
		{name: "spares, 2 tenants", start: func() system {
			return newPool(5, 4, faults{}, both(4, a, other)...).with(sparing).with(calm)
		}},
		{name: "spares, 2 tenants, 2 workers", big: true, start: func() system {
			return newPool(5, 4, faults{}, both(4, a, a, other)...).with(sparing).with(calm)
		}},
		{name: "spares, lowered to 1", states: 24725, start: func() system { return newPool(5, 4, faults{}, a, a, b).with(sparing).with(lowered).with(calm) }},
		{name: "spares, lowered to 1, lost message", big: true, start: func() system {
			return newPool(5, 4, faults{losses: 1}, a, a, b, a).with(sparing).with(lowered).with(calm)
		}},
		{name: "spares, lost swaps", states: 17797, start: func() system { return newPool(5, 4, faults{}, both(5, a)...).with(sparing) }},
		{name: "spares, lost swaps, 3 tickets", big: true, start: func() system { return newPool(5, 4, faults{}, both(5, a, a)...).with(sparing) }},
	}
}
