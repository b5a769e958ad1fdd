package wasmtest

import "time"

// timer is a root's tick. It is one-shot: armed again only when the tick has returned.
type timer struct {
	period time.Duration
	due    time.Duration // on the host's Elapsed scale
	armed  bool
	number uint64
}

// setTick is proxy_set_tick_period_milliseconds: it restarts the period from now; 0 stops it.
func (r *Root) setTick(period time.Duration) {
	r.timer.period = period
	r.rearm()
}

func (r *Root) rearm() {
	h := r.vm.host
	h.events.number++
	r.timer.armed = r.timer.period > 0
	r.timer.due = h.Elapsed() + r.timer.period
	r.timer.number = h.events.number
}

// TickPeriod is the root's tick period, 0 when it doesn't tick.
func (r *Root) TickPeriod() time.Duration { return r.timer.period }

func (vm *VM) dueTicks(list []Event) []Event {
	if vm.failed != nil {
		return list
	}
	now := vm.host.Elapsed()
	for _, r := range vm.roots {
		if r.timer.armed && r.timer.due <= now {
			list = append(list, Event{
				Kind: Tick, Worker: vm.worker, Context: r.context.id, At: r.timer.due, number: r.timer.number,
			})
		}
	}
	return list
}

func (w *Worker) dueRoot(e Event) *Root {
	for _, vm := range w.vms {
		for _, r := range vm.roots {
			if r.timer.armed && r.timer.number == e.number && vm.failed == nil {
				return r
			}
		}
	}
	return nil
}

func (w *Worker) deliverTick(e Event) bool {
	r := w.dueRoot(e)
	if r == nil {
		return false
	}
	r.timer.armed = false
	if r.vm.callbacks[onTick] == nil {
		return true // the real host doesn't arm it again then
	}
	r.vm.enterGuest(onTick, r.context)
	r.vm.runActions()
	if r.state != rootGone {
		r.rearm()
	}
	return true
}

// nextTick is when the next tick is due, on the Elapsed scale.
func (h *Host) nextTick() (next time.Duration, ok bool) {
	for _, w := range h.threads() {
		for _, vm := range w.vms {
			if vm.failed != nil {
				continue
			}
			for _, r := range vm.roots {
				if r.timer.armed && (!ok || r.timer.due < next) {
					next, ok = r.timer.due, true
				}
			}
		}
	}
	return next, ok
}
