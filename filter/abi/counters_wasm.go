//go:build wasip1

package abi

// counters are this VM's counters: a host call for each count would cost many times as much as adding it up here.
var counters counterTable

type counterTable struct {
	all   []counter
	owing bool // something is pending
	told  bool // a Debtor knows
}

type counter struct {
	_ [0]func() // not comparable: no code is made to compare two

	name    string // a later configuration finds the counters of an earlier one by it
	metric  uint32 // the host's id
	pending int64  // what the host has yet to be told
}

// isCounter marks the ids that this package gives counters. The rest of such an id is an index of the table.
const isCounter = 1 << 31

func (t *counterTable) count(id uint32, by int64) {
	t.all[id-isCounter].pending += by
	t.owing = true
}

// tell tells the context whose callback has ended that something is owed, if nobody knows yet.
func (t *counterTable) tell(context any) {
	if t.owing && !t.told {
		if d, ok := context.(Debtor); ok {
			t.told = true
			d.Owes()
		}
	}
}

// HandOver tells the host what all contexts have counted, in the order in which the counters were defined.
func HandOver() {
	t := &counters
	if t.owing {
		t.owing, t.told = false, false
		for i := range t.all {
			if c := &t.all[i]; c.pending != 0 {
				proxyIncrementMetric(c.metric, c.pending)
				c.pending = 0
			}
		}
	}
}
