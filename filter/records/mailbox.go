package records

import (
	"strconv"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/filter/abi"
)

// A mailbox is the shared queue of a seat, in which other workers tell of grants, and what is known of theirs.
type mailbox struct {
	_ incomparable

	id      uint32
	vmID    string
	others  [admission.MaxWorkers]uint32 // ids by seat, plus one; 0: not known yet
	message [admission.GrantBytes]byte
	text    []byte // scratch
}

func mailboxName(domain string, seat uint16) string {
	return Prefix + domain + "/queue/" + strconv.Itoa(int(seat))
}

// open makes a seat's shared queue this context's. The last one to register a name gets its messages.
func (m *mailbox) open(domain string, seat uint16) {
	m.id, _ = abi.RegisterQueue(mailboxName(domain, seat))
}

// tell sends a grant to its worker. A message that is lost costs time only: ticks look for grants, too.
func (m *mailbox) tell(g admission.Grant, domain string) {
	g.Encode(&m.message)
	m.send(g.Seat, domain, m.message[:])
}

// send sends a message to the worker in a seat.
//
//go:noinline // as stopWaiting
func (m *mailbox) send(seat uint16, domain string, message []byte) {
	id := m.others[seat]
	if id == 0 {
		if m.vmID == "" {
			id, _ := abi.Property("plugin_vm_id")
			m.vmID = string(id)
		}
		q, s := abi.ResolveQueue(m.vmID, mailboxName(domain, seat))
		if s != abi.StatusOK {
			return
		}
		id = q + 1
		m.others[seat] = id
	}
	abi.Enqueue(id-1, message)
}

// IsMailbox reports whether a shared queue is the one in which this context is told of grants.
func (r *Records) IsMailbox(queue uint32) bool { return queue == r.mailbox.id }

// Receive takes one message out of the mailbox, and tells the ticket that it calls granted if it is, or gives back the
// spares of the record that it names; false: the mailbox is empty. Anybody can write into a shared queue, so a message
// is only a hint, and the record is asked.
func (r *Records) Receive() bool {
	b, s := abi.Dequeue(r.mailbox.id)
	if s != abi.StatusOK {
		return false
	}
	epoch, seq, ok := admission.DecodeGrant(b)
	if !ok {
		if k := r.aheadKey(string(b)); k != nil {
			r.noteAhead(k, false)
			if k.spares > 0 {
				r.reconcile(k)
			}
		}
		return true
	}
	if t := r.tickets[seq]; epoch == r.seat.me.Epoch && t != nil {
		r.verify(t)
	}
	return true
}

// verify looks whether a ticket has been granted.
func (r *Records) verify(t *Ticket) {
	k := t.Key
	state, _, status := abi.GetShared(k.data)
	if status != abi.StatusOK {
		r.mark(k, r.now+dirtyRetry)
		return
	}
	target := r.target(k)
	standing, e := r.machine.Look(state, &target, t.Seq)
	switch standing {
	case admission.StandingGranted:
		r.stopWaiting(t)
		t.Waiter.Granted(r.granted(t, e))
	case admission.StandingUnknown:
		r.reconcile(k)
	}
}

// callBack is a message that only makes the host call back.
var callBack = []byte{0}

// CallBack asks for a callback in the next turn of the event loop, and for a tick soon, should the message be lost.
// TakeUp is that callback's.
func (r *Records) CallBack() {
	if r.calledBack {
		return
	}
	r.calledBack = true
	abi.Enqueue(r.mailbox.id, callBack)
	r.waker.WakeBy(r.now + dirtyRetry)
}
