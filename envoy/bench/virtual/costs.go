package virtual

import "time"

// Costs are how long things take.
type Costs struct {
	Request, Answer time.Duration            // Envoy's own work for a request's headers, and for its answer
	Call            map[string]time.Duration // a call of the host, by name
	OtherCall       time.Duration            // a call that isn't in Call
	Guest           time.Duration            // what the module does between two calls
	Window          time.Duration            // from the get to the set of a record; 0: as long as it takes here
	Wake            time.Duration            // from a message's sending until its receiver runs, if it is idle
}

// DefaultCosts were measured in Envoy 1.40, with many calls in one callback on a quiet machine.
func DefaultCosts() Costs {
	const us = time.Microsecond
	return Costs{
		Request: 25 * us, Answer: 25 * us,
		Call: map[string]time.Duration{
			"proxy_get_shared_data":      1100,
			"proxy_set_shared_data":      300,
			"proxy_get_header_map_value": 1100,
			"proxy_get_header_map_pairs": 1300,
			"proxy_get_property":         1000,
			"proxy_increment_metric":     100,
			"proxy_record_metric":        200,
		},
		OtherCall: 500,
		Guest:     1 * us,
		Wake:      100 * us,
	}
}

// of is how long a call takes until its effect.
func (c *Costs) of(call string) time.Duration {
	if d, ok := c.Call[call]; ok {
		return d
	}
	return c.OtherCall
}
