package records

// mostTickets bounds how many waiting tickets of one key EachTenant looks at.
const mostTickets = 4096

// EachTenant calls f with the id of each tenant for which this context's requests have something: a permit, a spare, a
// ticket. It may call it with the same one more than once.
func (r *Records) EachTenant(f func(id uint64)) {
	r.each(func(k *Key) {
		for i := range k.shares {
			f(k.shares[i].Tenant)
		}
		t := k.waiting.first
		for n := 0; t != nil && n < mostTickets; n++ {
			f(t.Tenant)
			t = t.next
		}
	})
}
