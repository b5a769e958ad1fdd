package admission

// A Source says where the limit in force in a record comes from.
type Source uint8

// The sources.
const (
	FromConfig Source = iota // the configuration: what was last asserted
	FromKey                  // an override of the key's own
	FromPool                 // the override of its pool's default limit
	FromFleet                // reserved: a share of the fleet's limit
)

// An Override is a limit that a record has in place of the configured one: no configuration and no request's end
// changes it, only a retune. The zero Override is none.
type Override struct {
	_ incomparable

	Source Source
	Limit  int
}

// IsSame reports whether two overrides are the same.
func (o *Override) IsSame(p *Override) bool {
	return o.Source == p.Source && (o.Source == FromConfig || o.Limit == p.Limit)
}

// retune gives the record the operation's override or takes away the one that it has. The dispatch that follows wakes
// the waiters for whom a raised limit has room; a lowered one takes nothing from anybody.
func (m *Machine) retune() {
	if r := &m.rec; m.op.Own || r.Source != FromKey {
		r.Provisional = false
		r.tune(m.op)
	}
}

// tune makes the operation's override the record's, or the operation's limit if that is none.
func (r *Record) tune(op *Op) {
	if r.Source, r.Limit = op.Override.Source, op.limit(); r.Source != FromConfig {
		r.Limit = boundedLimit(op.Override.Limit)
	}
}

// limit is the limit that a record has once an operation has asserted its own.
func (v *view) limit(op *Op) uint32 {
	if h := v.head(); h[atSource] != byte(FromConfig) {
		return get32(h[atLimit:])
	}
	return op.limit()
}

// boundedLimit is a limit within what any configuration can say.
func boundedLimit(limit int) uint32 { return uint32(min(max(limit, 0), MaxLimit)) }
