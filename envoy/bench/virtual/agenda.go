package virtual

import (
	"container/heap"
	"time"
)

// An agenda is what will happen, by time; what is due at once happens in the order in which it was entered.
type agenda struct {
	entries []entry
	number  int
}

type entry struct {
	at     time.Duration
	number int
	do     func()
}

func (a *agenda) add(at time.Duration, do func()) {
	a.number++
	heap.Push(a, entry{at, a.number, do})
}

// next takes out the earliest entry.
func (a *agenda) next() entry { return heap.Pop(a).(entry) }

func (a *agenda) Len() int { return len(a.entries) }

func (a *agenda) Less(i, j int) bool {
	if a.entries[i].at != a.entries[j].at {
		return a.entries[i].at < a.entries[j].at
	}
	return a.entries[i].number < a.entries[j].number
}

func (a *agenda) Swap(i, j int) { a.entries[i], a.entries[j] = a.entries[j], a.entries[i] }

func (a *agenda) Push(e any) { a.entries = append(a.entries, e.(entry)) }

func (a *agenda) Pop() any {
	last := len(a.entries) - 1
	e := a.entries[last]
	a.entries = a.entries[:last]
	return e
}
