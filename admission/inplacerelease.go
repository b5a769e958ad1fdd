package admission

// A heir is the ticket that gets the permit which a release in place frees.
type heir struct {
	Ticket
	at     int    // its position in the queue; -1: there is no heir
	column int    // its worker's
	next   uint32 // the arrival of the tenant's oldest ticket behind it; 0: it has no other
}

// releaseInPlace gives a permit back, and grants it to the ticket whose turn it is.
func (m *Machine) releaseInPlace() bool {
	v, op := &m.view, m.op
	t := v.findTenant(op.Tenant)
	if t < 0 || v.column < 0 || !tellsNothing(op) {
		return false
	}
	tenant, column := v.tenant(t), v.columnAt(v.column)
	holder := v.findHolder(op.Me.Seat, uint16(t))
	if holder < 0 || get32(v.queue.b[holder+4:]) == 0 || get32(tenant[atTenantInflight:]) == 0 || get32(column[10:]) == 0 {
		return false
	}
	h, ok := v.findHeir(t, op.Now)
	if !ok {
		return false
	}
	place := -1
	if get32(tenant[atTenantQueued:]) > 0 {
		own := turnOf(tenant)
		if place = v.placeInOrder(&own); place == v.waiting || v.waitingTenant(place) != t {
			return false
		}
	} else if get32(tenant[atTenantInflight:]) == 1 {
		if v.idle == maxIdleTenants || get64(tenant[atTenantGrant:]) <= get64(v.head()[atForgotten:]) {
			return false // somebody is to be forgotten
		}
		v.idle++
	}
	v.giveBack(t, holder, place, op)
	m.effect.Inflight--
	if h.at >= 0 {
		m.inherit(&h)
	}
	if column := v.columnAt(v.column); get64(column[10:]) == 0 {
		v.queue.b = cut(v.queue.b, v.atColumns()+v.column*columnBytes, columnBytes)
		v.columns--
	}
	m.effect.Verdict = VerdictDone
	return true
}

// tellsNothing reports whether the end of a request changes nothing but its permit's.
func tellsNothing(op *Op) bool {
	if op.Outcome == OutcomeFailure || op.Pushback {
		return false
	}
	s := op.Shaping
	return s == nil || op.Outcome == OutcomeNone ||
		s.Hold.Success <= 0 && (op.Outcome == OutcomeSuccess || s.Hold.Cancel <= 0)
}

// findHeir finds the ticket that is granted next once tenant t has a permit less; false: it takes more to say.
func (v *view) findHeir(t int, now int64) (h heir, ok bool) {
	free := int(get32(v.head()[atLimit:])) - (v.inflight - 1)
	if h.at = -1; v.queue.n == 0 || free <= 0 {
		return h, v.queue.n > 0 || v.waiting == 0
	}
	if free > 1 || v.waiting == 0 {
		return h, false
	}
	next := v.waitingTenant(0)
	if next < 0 {
		return h, false
	}
	if next != t && get32(v.tenant(t)[atTenantQueued:]) > 0 {
		own, other := turnOf(v.tenant(t)), turnOf(v.tenant(next))
		if own.load--; own.before(&other) {
			next = t
		}
	}
	tenant := v.tenant(next)
	if h.at = v.queue.arrived(get32(tenant[atTenantFirst:])); h.at < 0 {
		return h, false
	}
	h.Ticket = v.queue.At(h.at)
	h.column = v.findColumn(h.Seat)
	if int(h.Tenant) != next || h.Deadline <= now || h.column < 0 || get32(v.columnAt(h.column)[14:]) == 0 {
		return h, false
	}
	switch get32(tenant[atTenantQueued:]) {
	case 0:
		return h, false
	case 1:
		return h, true
	}
	behind := v.queue.next(h.Tenant, h.at+1)
	if behind < 0 {
		return h, false
	}
	h.next = v.queue.arrivalOf(behind)
	return h, true
}

// giveBack counts one permit less for tenant t. place is the tenant's in the order of turns; -1: it isn't there.
func (v *view) giveBack(t, holder, place int, op *Op) {
	if place >= 0 {
		holder -= 2
		v.removeFromOrder(place)
	}
	if n := v.queue.b[holder+4:]; get32(n) > 1 {
		add32(n, -1)
	} else {
		v.queue.b = cut(v.queue.b, holder, holderBytes)
		v.holders--
	}
	add32(v.columnAt(v.column)[10:], -1)
	tenant := v.tenant(t)
	add32(tenant[atTenantInflight:], -1)
	if place >= 0 {
		v.insertInOrder(t)
	}
	head := v.head()
	noteMove(head, op.Now)
	put64(head[atMeanUse:], uint64(meanUse(int64(get64(head[atMeanUse:])), op.Use)))
}

// inherit grants the freed permit to the heir. Its tenant has the first turn.
func (m *Machine) inherit(h *heir) {
	v := &m.view
	t := int(h.Tenant)
	v.removeFromOrder(0)
	v.queue.remove(h.at)
	tenant := v.tenant(t)
	add32(tenant[atTenantQueued:], -1)
	put32(tenant[atTenantFirst:], h.next)
	add32(v.columnAt(h.column)[14:], -1)
	v.grant(t, h.column, m.op.Now)
	if get32(v.tenant(t)[atTenantQueued:]) > 0 {
		v.insertInOrder(t)
	}
	m.effect.Inflight++
	w := Worker{Seat: h.Seat, Epoch: get64(v.columnAt(h.column)[2:])}
	m.effect.Grants = append(m.effect.Grants, Grant{Worker: w, Seq: h.Seq})
}
