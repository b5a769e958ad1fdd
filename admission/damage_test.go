package admission_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/admission"
)

// fullRecord is a record with something of everything.
func fullRecord() *admission.Record {
	r := &admission.Record{Gen: 3, Name: []byte("k"), Limit: 8, GrantSeq: 9,
		Tenants: []admission.Tenant{
			{ID: 1, Weight: 1, Inflight: 3, Queued: 1, OnHold: 2, LastGrant: 4},
			{},
			{ID: 2, Weight: 5, Inflight: 1, Queued: 1, LastGrant: 5}},
		Columns: []admission.Column{
			{Worker: admission.Worker{Seat: 0, Epoch: 1 << 32}, Inflight: 3, Tickets: 1},
			{Worker: admission.Worker{Seat: admission.MaxWorkers - 1, Epoch: 2 << 32}, Inflight: 1, Tickets: 1}},
		Holders: []admission.Holder{
			{Seat: 0, Tenant: 0, Inflight: 2}, {Seat: 0, Tenant: 2, Inflight: 1},
			{Seat: admission.MaxWorkers - 1, Tenant: 0, Inflight: 1}},
		Holds: []admission.HoldGroup{{Until: 5, Tenant: 0, Count: 2}, {Until: 6, Tenant: admission.NoTenant, Count: 1}},
	}
	return r
}

// withTickets encodes a record with tickets in its queue.
func withTickets(r *admission.Record, tickets ...admission.Ticket) []byte {
	for i, t := range tickets {
		if int(t.Tenant) < len(r.Tenants) && !slices.ContainsFunc(tickets[:i], func(u admission.Ticket) bool { return u.Tenant == t.Tenant }) {
			r.Tenants[t.Tenant].First = uint32(i)
		}
		r.Push(t)
	}
	return r.Append(nil)
}

// Each way in which a record's parts can disagree is noticed, one by one.
func TestDamageIsNoticed(t *testing.T) {
	tickets := func() []admission.Ticket {
		return []admission.Ticket{{Seat: 0, Tenant: 2, Seq: 4, Deadline: 9, Budget: 3}, {Seat: admission.MaxWorkers - 1, Tenant: 0, Seq: 4, Deadline: 9}}
	}
	var again admission.Record
	require.NoError(t, again.Decode(withTickets(fullRecord(), tickets()...)), "without damage")
	for what, damage := range map[string]func(*admission.Record){
		"a limit above the highest":  func(r *admission.Record) { r.Limit = admission.MaxLimit + 1 },
		"retired and in use":         func(r *admission.Record) { r.Retired = true },
		"a free tenant with an id":   func(r *admission.Record) { r.Tenants[1].ID = 1 },
		"a free tenant with a grant": func(r *admission.Record) { r.Tenants[1].LastGrant = 1 },
		"a free tenant in use":       func(r *admission.Record) { r.Tenants[2].Weight = 0 },
		"a tenant's permits":         func(r *admission.Record) { r.Tenants[0].Inflight++ },
		"two tenants' permits":       func(r *admission.Record) { r.Tenants[0].Inflight--; r.Tenants[2].Inflight++ },
		"a tenant's tickets":         func(r *admission.Record) { r.Tenants[0].Queued-- },
		"two tenants' tickets":       func(r *admission.Record) { r.Tenants[0].Queued--; r.Tenants[2].Queued++ },
		"a tenant's holds":           func(r *admission.Record) { r.Tenants[0].OnHold-- },
		"another tenant's holds":     func(r *admission.Record) { r.Tenants[2].OnHold++ },
		"a seat that can't be": func(r *admission.Record) {
			r.Columns[1].Seat, r.Holders[2].Seat = admission.MaxWorkers, admission.MaxWorkers
		},
		"two columns of one seat": func(r *admission.Record) { r.Columns[1].Seat, r.Holders[2].Seat = 0, 0 },
		"a column of nobody":      func(r *admission.Record) { r.Columns[0].Epoch = 0 },
		"a column's permits":      func(r *admission.Record) { r.Columns[0].Inflight++ },
		"two columns' permits":    func(r *admission.Record) { r.Columns[0].Inflight--; r.Columns[1].Inflight++ },
		"a column's tickets":      func(r *admission.Record) { r.Columns[0].Tickets++ },
		"two columns' tickets":    func(r *admission.Record) { r.Columns[0].Tickets--; r.Columns[1].Tickets++ },
		"a column without anything": func(r *admission.Record) {
			r.Columns = append(r.Columns, admission.Column{Worker: admission.Worker{Seat: 9, Epoch: 1}})
		},
		"a holder without a permit":            func(r *admission.Record) { r.Holders = append(r.Holders, admission.Holder{Seat: 0, Tenant: 2}) },
		"a holder of a tenant that isn't":      func(r *admission.Record) { r.Holders[1].Tenant = 3 },
		"a holder of a tenant far away":        func(r *admission.Record) { r.Holders[1].Tenant = 0xFFFE },
		"a holder of a seat that isn't":        func(r *admission.Record) { r.Holders[2].Seat = 9 },
		"a holder of a seat that can't be":     func(r *admission.Record) { r.Holders[2].Seat = admission.MaxWorkers },
		"holders that wrap round":              func(r *admission.Record) { r.Holders[0].Inflight, r.Holders[1].Inflight = 3+1<<31, 1<<31 },
		"one holder's permits":                 func(r *admission.Record) { r.Holders[0].Inflight-- },
		"a hold without a permit":              func(r *admission.Record) { r.Holds[1].Count = 0 },
		"a hold of more than any limit":        func(r *admission.Record) { r.Holds[1].Count = admission.MaxLimit + 1 },
		"a hold charged to nobody's tenant":    func(r *admission.Record) { r.Holds[0].Tenant = 3 },
		"a hold charged to the wrong tenant":   func(r *admission.Record) { r.Holds[0].Tenant = 2 },
		"a hold of more than its tenant's sum": func(r *admission.Record) { r.Holds[0].Count++ },
	} {
		r := fullRecord()
		damage(r)
		require.Error(t, again.Decode(withTickets(r, tickets()...)), what)
	}
	for what, damage := range map[string]func([]admission.Ticket) []admission.Ticket{
		"one ticket fewer":                    func(q []admission.Ticket) []admission.Ticket { return q[:1] },
		"one ticket more":                     func(q []admission.Ticket) []admission.Ticket { return append(q, q[0]) },
		"a ticket of another column":          func(q []admission.Ticket) []admission.Ticket { q[0].Seat = admission.MaxWorkers - 1; return q },
		"a ticket of a seat without a column": func(q []admission.Ticket) []admission.Ticket { q[0].Seat = 7; return q },
		"a ticket of a seat that can't be":    func(q []admission.Ticket) []admission.Ticket { q[0].Seat = admission.MaxWorkers; return q },
		"a ticket of another tenant":          func(q []admission.Ticket) []admission.Ticket { q[0].Tenant = 0; return q },
		"a ticket of a free tenant":           func(q []admission.Ticket) []admission.Ticket { q[0].Tenant = 1; return q },
		"a ticket of a tenant that isn't":     func(q []admission.Ticket) []admission.Ticket { q[0].Tenant = 3; return q },
	} {
		require.Error(t, again.Decode(withTickets(fullRecord(), damage(tickets())...)), what)
	}
}

// The largest values are no damage.
func TestTheLargestValuesAreNoDamage(t *testing.T) {
	r := fullRecord()
	r.Limit, r.Holds[1].Count = admission.MaxLimit, admission.MaxLimit
	var again admission.Record
	require.NoError(t, again.Decode(withTickets(r, admission.Ticket{Seat: 0, Tenant: 2}, admission.Ticket{Seat: admission.MaxWorkers - 1})))
	require.Equal(t, r.Holds, again.Holds)
	require.Equal(t, r.Columns, again.Columns)
	require.Equal(t, r.Holders, again.Holders)
	require.Equal(t, r.Tenants, again.Tenants)
}
