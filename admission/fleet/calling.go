package fleet

import "github.com/headgate/headgate/admission"

// NextCall is when to make the next call. It is Never while the answer to one is to come.
func (r *Replica) NextCall(now Time) Time {
	r.expire(now)
	if r.waiting {
		return Never
	}
	next := r.next
	r.refill(now)
	if r.bursts > 0 {
		for _, k := range r.order {
			if gap := r.gap(now, k); gap > 0 {
				next = min(next, r.sent+gap)
			}
		}
	}
	if r.calls == 0 {
		return next
	}
	return max(next, r.sent+shortestGap)
}

// refill adds the calls between the regular ones that a second allows.
func (r *Replica) refill(now Time) {
	for ; now-r.filled >= admission.Second && r.bursts < mostBursts; r.filled += admission.Second {
		r.bursts++
	}
	if r.bursts == mostBursts {
		r.filled = now
	}
}

// gap is how long after the last call the key wants another one, or 0 if it can wait for the regular one.
func (r *Replica) gap(now Time, k *key) Duration {
	if !k.isListed || r.State(now) == StateOutage {
		return 0
	}
	demand, share := k.demand(), k.inForce(now)
	switch {
	case demand > share && demand > k.sentWants || k.reading.Limit != k.sentLimit: // the service doesn't know
		return shortestGap
	case k.target > k.granted && demand > share: // the service waits for others to give up theirs
		return r.poll
	case k.target < k.granted && k.keep(now) < k.sentKeep: // others may wait for it
		return giveBackGap
	case demand <= k.sentWants/2 && k.sentWants > 0 && demand < share:
		return giveBackGap
	}
	return 0
}

// keep is the most that the process uses of the key, and may use until the record gets another share.
func (k *key) keep(now Time) int {
	return min(max(k.inForce(now), k.reading.Share, k.reading.Used), admission.MaxLimit)
}

// Call returns the next call: its number and what to send to /v1/lease. The driver observes and puts in the changes
// before, in the same turn.
func (r *Replica) Call(now Time) (number int64, body []byte) {
	r.expire(now)
	if now < r.next {
		r.bursts = max(0, r.bursts-1)
	}
	r.number++
	r.calls++
	r.sent, r.waiting = now, true
	r.next = now + refresh + Duration(r.jitter(int64(refresh/5))) - refresh/10
	r.pending = r.pending[:0]
	w := writer{}
	w.begin(&r.set, r.number)
	for _, wanted := range [...]bool{true, false} { // first those that need it, if there are too many
		for _, k := range r.order {
			if k.isListed && (k.demand() > 0 || k.reading.Used > 0) == wanted && len(r.pending) < maxKeys &&
				len(w.text) < maxCallBytes {
				k.sentKeep, k.sentWants, k.sentLimit = k.keep(now), k.demand(), k.reading.Limit
				w.ask(k, len(r.pending) == 0)
				r.pending = append(r.pending, k)
			}
		}
	}
	return r.number, w.end()
}

// jitter is a number from 0 to below most.
func (r *Replica) jitter(most int64) int64 {
	r.random ^= r.random << 13
	r.random ^= r.random >> 7
	r.random ^= r.random << 17
	return int64(r.random>>1) % most
}

// Fail says that a call has no answer and won't get one.
func (r *Replica) Fail(now Time, number int64) {
	if !r.waiting || number != r.number {
		return
	}
	r.waiting = false
	r.failures++
	if r.until == 0 {
		r.joinBy = now // there is nobody to wait for
	}
}

// expire gives a call up whose answer is too late.
func (r *Replica) expire(now Time) {
	if r.waiting && now-r.sent >= min(answerTime, r.set.Lease/4) {
		r.Fail(now, r.number)
	}
}

// Reply takes in the answer to a call, and reports whether it was one. If not, the call counts as failed.
func (r *Replica) Reply(now Time, number int64, body []byte) bool {
	r.expire(now)
	if !r.waiting || number != r.number {
		return false
	}
	answers, reply, ok := readReply(string(body), r.pending)
	if !ok {
		r.Fail(now, number)
		return false
	}
	r.waiting = false
	lease := min(r.set.Lease, reply.ttl)
	until := r.sent + lease - lease/marginPart
	if until <= now {
		return true // too late to be of use
	}
	r.until = until
	isShort := false
	for i, k := range r.pending {
		if r.sent < k.share.Until && k.share.Until <= now {
			// The key's lease has ended since, and it may use more than the call has said. The next call will say so.
			k.put(k.share.After, k.share.After, Never)
			r.next = now
			continue
		}
		r.take(k, answers[i], reply.learning > 0)
		isShort = isShort || k.target > k.granted && k.sentWants > k.granted
	}
	r.poll = min(2*r.poll, longestPoll)
	if !isShort {
		r.poll = shortestGap / 2
	}
	if reply.learning > 0 {
		r.next = min(r.next, now+reply.learning+Duration(r.jitter(int64(shortestGap))))
	}
	return true
}

// take takes in the answer for one key. While the service learns it grants only what replicas already have. A replica
// that has had no answer for the key before then has what it would have without the service, and says so in its next
// call.
func (r *Replica) take(k *key, a answer, learns bool) {
	k.granted, k.target, k.safe = a.grant, a.target, a.safe
	limit := min(a.grant, a.target)
	after := outageShare(&r.set, k.reading.Limit, a.safe)
	if learns && !k.answered && a.grant == 0 {
		limit = min(outageShare(&r.set, k.reading.Limit, -1), k.reading.Limit)
	}
	k.answered = true
	k.put(limit, after, r.until)
}
