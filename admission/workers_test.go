package admission_test

import (
	"testing"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/admissiontest"
)

const lease = 5 * admission.Second

// store is what happens to a table between two workers' callbacks.
func store(t *admission.WorkerTable) {
	b := t.Append(nil)
	*t = admission.WorkerTable{}
	t.Decode(b)
}

func TestWorkerClaimsBeatsAndLeaves(t *testing.T) {
	var table admission.WorkerTable
	a, ok := table.Claim(0xAAAA, 0, lease)
	b, _ := table.Claim(0xAAAA, 0, lease) // the same random number is no harm
	store(&table)
	if !ok || a == b || a.Seat != 0 || b.Seat != 1 || !table.Alive(a) || !table.Alive(b) {
		t.Fatalf("%+v %+v", a, b)
	}
	if next := table.NextDeath(a); next != int64(lease)+1 {
		t.Errorf("next death at %d", next)
	}
	if !table.Beat(a, int64(lease)-1, lease) || !table.Beat(b, int64(lease), lease) {
		t.Error("a beat in time is refused")
	}
	table.Leave(a)
	store(&table)
	if table.Alive(a) || table.Beat(a, 0, lease) || !table.Alive(b) {
		t.Error("a worker that has left is still seated")
	}
	c, _ := table.Claim(1, int64(lease), lease)
	if c.Seat != 0 || c.Epoch == a.Epoch {
		t.Errorf("the free seat goes to %+v", c)
	}
	table.Leave(a) // another worker's seat is not given up
	table.Leave(admission.Worker{})
	if !table.Alive(c) {
		t.Error("a stranger gave the seat up")
	}
	table.Leave(b)
	table.Leave(c)
	if n := len(table.Append(nil)); n != len((&admission.WorkerTable{}).Append(nil)) {
		t.Errorf("an empty table takes %d bytes", n)
	}
}

// TestDeathIsAWord: a worker that stopped is dead only when the table says so. Then it stays dead.
func TestDeathIsAWord(t *testing.T) {
	var table admission.WorkerTable
	a, _ := table.Claim(1, 0, lease)
	b, _ := table.Claim(2, 0, lease)
	if table.Beat(b, int64(lease), lease); !table.Alive(a) || len(table.AppendDead(nil)) != 0 {
		t.Fatal("declared dead within its lease")
	}
	if table.Beat(b, int64(lease)+1, lease); table.Alive(a) {
		t.Fatal("not declared dead after it")
	}
	store(&table)
	if dead := table.AppendDead(nil); len(dead) != 1 || dead[0] != a {
		t.Fatalf("dead: %v", dead)
	}
	if table.Beat(a, int64(lease)+2, lease) {
		t.Fatal("a dead worker's beat is accepted: it would not know what it has lost")
	}
	if next := table.NextDeath(b); next != 0 {
		t.Errorf("the dead die again at %d", next)
	}
	again, ok := table.Retake(a, 3, int64(lease)+2, lease)
	if !ok || again.Seat != a.Seat || again.Epoch>>32 <= b.Epoch>>32 || !table.Alive(again) || table.Alive(a) {
		t.Fatalf("%+v after %+v", again, a)
	}
}

// TestCase_O10_LeaseClock: a clock that was read earlier declares no worker dead, and keeps none alive for ever.
func TestCase_O10_LeaseClock(t *testing.T) {
	var table admission.WorkerTable
	hour := int64(admission.Hour)
	a, _ := table.Claim(1, 8*hour, lease)
	b, _ := table.Claim(2, 0, lease)
	if table.Beat(b, 1, lease); !table.Alive(a) {
		t.Error("a beat from the future is dead")
	}
	table.Beat(a, 0, lease)
	table.Beat(b, int64(lease), lease)
	if table.Beat(b, int64(lease)+1, lease); table.Alive(a) {
		t.Error("the beat that came last does not count")
	}
}

// TestALateWorkerDeclaresNobodyDead: what kept one worker may have kept all, such as a process that was stopped. A worker
// that doesn't show up until the late one's next beat is dead all the same.
func TestALateWorkerDeclaresNobodyDead(t *testing.T) {
	var table admission.WorkerTable
	var workers []admission.Worker
	for range 4 {
		w, _ := table.Claim(1, 0, lease)
		workers = append(workers, w)
	}
	stopped := 10 * int64(lease)
	for _, w := range workers[:3] {
		if !table.Beat(w, stopped, lease) {
			t.Fatalf("%+v is dead because the process was stopped", w)
		}
	}
	table.Beat(workers[0], stopped+int64(lease)/5, lease)
	for i, w := range workers {
		if table.Alive(w) != (i < 3) {
			t.Errorf("worker %d alive: %v", i, table.Alive(w))
		}
	}
}

// TestSeatsRunOut: 256 workers live at once. The seat of the one that died first is the first to be reused, and its new
// owner's epoch is newer.
func TestSeatsRunOut(t *testing.T) {
	var table admission.WorkerTable
	var workers []admission.Worker
	for i := range admission.MaxWorkers {
		w, ok := table.Claim(9, int64(i), lease)
		if !ok {
			t.Fatalf("no seat for worker %d", i)
		}
		workers = append(workers, w)
	}
	if _, ok := table.Claim(9, int64(admission.Second), lease); ok {
		t.Fatal("a seat for one too many")
	}
	now := int64(lease) + 100 // those up to 99 are overdue
	table.Beat(workers[0], now-1, lease)
	w, ok := table.Claim(9, now, lease)
	if !ok || w.Seat != 1 || w.Epoch>>32 <= workers[255].Epoch>>32 {
		t.Fatalf("%+v", w)
	}
	if table.Alive(workers[1]) || !table.Alive(w) || !table.Alive(workers[200]) {
		t.Error("the wrong one lost its seat")
	}
	// Its former owner lives after all, and finds another dead one's.
	again, ok := table.Retake(workers[1], 9, now, lease)
	if !ok || again.Seat != 2 || !table.Alive(w) {
		t.Fatalf("%+v", again)
	}
}

// TestDamagedTable: any bytes are a table, within its bounds.
func TestDamagedTable(t *testing.T) {
	var table admission.WorkerTable
	for range 300 {
		table.Claim(1, 0, lease)
	}
	b := table.Append(nil)
	for n := range b {
		table.Decode(b[:n])
		table.AppendDead(nil)
		table.NextDeath(admission.Worker{})
		w, ok := table.Claim(1, 1<<62, lease)
		if ok && (w.Seat >= admission.MaxWorkers || !table.Alive(w)) {
			t.Fatalf("%d bytes: %+v", n, w)
		}
	}
	table.Decode(append(b, b...))
	if n := len(table.Append(nil)); n > len(b) {
		t.Errorf("a table of %d bytes", n)
	}
	b[0]++
	table.Decode(b)
	if n := len(table.Append(nil)); n != 5 {
		t.Errorf("another version's table has %d bytes", n)
	}
}

// TestAlive: the table that tests make is one.
func TestAlive(t *testing.T) {
	a, b := admission.Worker{Seat: 4, Epoch: 1<<32 + 5}, admission.Worker{Seat: 2, Epoch: 7}
	table := admissiontest.Alive(a, b)
	otherEpoch, noSeat := admission.Worker{Seat: 4, Epoch: 7}, admission.Worker{Seat: 3}
	if !table.Alive(a) || !table.Alive(b) || table.Alive(otherEpoch) || table.Alive(noSeat) {
		t.Error("wrong")
	}
}
