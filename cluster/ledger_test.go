package cluster

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var model = Key{Pool: "model", Key: "m"}

// A fleetOf calls a ledger, in a time of its own.
type fleetOf struct {
	t      require.TestingT
	ledger *Ledger
	now    int64
	calls  map[string]int64
}

// newFleet is a fleet whose ledger has learned.
func newFleet(t require.TestingT) *fleetOf {
	f := &fleetOf{t: t, ledger: NewLedger(), now: 1_700_000_000_000, calls: map[string]int64{}}
	f.call("first", Ask{Key: Key{Pool: "other"}})
	f.now += 10_000
	return f
}

func (f *fleetOf) call(replica string, asks ...Ask) *LeaseReply {
	f.calls[replica]++
	reply, err := f.ledger.Lease(f.now, &LeaseCall{Domain: "d", Replica: replica, Call: f.calls[replica], TTL: 5000, Pools: asks})
	require.NoError(f.t, err)
	return reply
}

// ask has a replica call for the model, and returns grant, target and safe share.
func (f *fleetOf) ask(replica string, limit, keep, wants int64) [3]int64 {
	a := f.call(replica, Ask{Key: model, Limit: limit, Keep: keep, Wants: wants}).Pools[0]
	return [3]int64{a.Grant, a.Target, a.Safe}
}

func TestAShareMovesInTwoSteps(t *testing.T) {
	f := newFleet(t)
	require.Equal(t, [3]int64{6, 6, 6}, f.ask("a", 6, 0, 12))
	require.Equal(t, [3]int64{0, 3, 3}, f.ask("b", 6, 0, 12), "a has all of it")
	require.Equal(t, [3]int64{6, 3, 3}, f.ask("a", 6, 6, 12), "a hears that it has too much")
	require.Equal(t, [3]int64{0, 3, 3}, f.ask("b", 6, 0, 12), "and may still be using it")
	require.Equal(t, [3]int64{3, 3, 3}, f.ask("a", 6, 3, 12))
	require.Equal(t, [3]int64{3, 3, 3}, f.ask("b", 6, 0, 12))
}

func TestADeadReplicasShareComesBackAfterItsLease(t *testing.T) {
	f := newFleet(t)
	f.ask("a", 6, 0, 12)
	f.now += 4999
	require.Equal(t, [3]int64{0, 3, 3}, f.ask("b", 6, 0, 12))
	f.now++
	require.Equal(t, [3]int64{6, 6, 6}, f.ask("b", 6, 0, 12))
}

// A Redis that has lost everything grants nothing new until every lease from before has ended.
func TestANewLedgerLearns(t *testing.T) {
	f := &fleetOf{t: t, ledger: NewLedger(), now: 1_700_000_000_000, calls: map[string]int64{}}
	require.Equal(t, [3]int64{0, 6, 6}, f.ask("b", 6, 0, 12))
	f.now += 1000
	require.Equal(t, [3]int64{5, 3, 3}, f.ask("a", 6, 5, 12), "what a has is believed")
	f.now += 3999
	require.EqualValues(t, 1, f.call("c").Learning)
	require.Equal(t, [3]int64{0, 3, 2}, f.ask("b", 6, 0, 12))
	f.now++
	require.Zero(t, f.call("c").Learning)
	require.Equal(t, [3]int64{1, 3, 2}, f.ask("b", 6, 0, 12))
}

// A replica that comes back with more than there is keeps it, and nobody gets any until it has drained.
func TestADebtDrains(t *testing.T) {
	f := newFleet(t)
	f.ask("a", 6, 0, 12)
	f.now += 6000
	f.ask("b", 6, 0, 12)
	require.Equal(t, [3]int64{4, 3, 3}, f.ask("a", 6, 4, 12), "above the limit, as b has 6")
	require.Equal(t, [3]int64{5, 3, 3}, f.ask("b", 6, 5, 12))
	require.Equal(t, [3]int64{3, 3, 3}, f.ask("b", 6, 3, 12))
	require.Equal(t, [3]int64{0, 2, 2}, f.ask("c", 6, 0, 12), "7 of 6 are in use")
}

func TestALateCallChangesNothingAndARepeatedOneOnce(t *testing.T) {
	f := newFleet(t)
	f.ask("a", 6, 0, 12)
	f.ask("a", 6, 6, 12)
	call := &LeaseCall{Domain: "d", Replica: "a", Call: 1, TTL: 5000, Pools: []Ask{{Key: model, Limit: 6}}}
	_, err := f.ledger.Lease(f.now, call)
	require.ErrorIs(t, err, ErrLate)
	call.Call = 2
	for range 3 {
		reply, err := f.ledger.Lease(f.now, call)
		require.NoError(t, err)
		require.EqualValues(t, 6, reply.Pools[0].Grant, "as the call was answered before")
	}
	require.Equal(t, [3]int64{0, 3, 3}, f.ask("b", 6, 0, 12))
}

// While two configurations overlap the lower limit is in force: raised when the last replica has it, lowered at once.
func TestTheLowestConfiguredLimitIsInForce(t *testing.T) {
	f := newFleet(t)
	f.ask("a", 6, 0, 0)
	require.Equal(t, int64(6), f.ask("b", 10, 0, 20)[1])
	require.Equal(t, int64(10), f.ask("a", 10, 0, 0)[1]+f.ask("b", 10, 0, 20)[1])
	require.Equal(t, int64(4), f.ask("a", 4, 0, 20)[1]+f.ask("b", 10, 5, 20)[1])
	f.now += 5000 // a, with the low limit, is gone
	require.Equal(t, int64(10), f.ask("b", 10, 0, 20)[1])
}

func TestALimitSetByHandWins(t *testing.T) {
	f := newFleet(t)
	set := func(key *string, limit *int64) {
		require.NoError(t, f.ledger.SetLimit(&LimitCall{Domain: "d", Pool: model.Pool, Key: key, Limit: limit}))
	}
	three, nine, none := int64(3), int64(9), int64(0)
	set(nil, &three)
	require.Equal(t, [3]int64{3, 3, 3}, f.ask("a", 6, 0, 12))
	set(&model.Key, &nine)
	require.Equal(t, [3]int64{9, 9, 9}, f.ask("a", 6, 3, 12), "the key's own is closer than the pool's")
	set(&model.Key, &none)
	require.Equal(t, [3]int64{9, 0, 0}, f.ask("a", 6, 9, 12), "closed, once what runs has ended")
	set(&model.Key, nil)
	require.Equal(t, int64(3), f.ask("a", 6, 0, 12)[1])
	set(nil, nil)
	require.Equal(t, int64(6), f.ask("a", 6, 0, 12)[1])
}

func TestTheSafeSharesAreTheLimitUnlessReplicasAreMore(t *testing.T) {
	f := newFleet(t)
	for i := range 9 {
		f.ask(fmt.Sprint(i), 6, 0, 1)
	}
	require.Equal(t, int64(1), f.ask("0", 6, 0, 1)[2])
	require.Equal(t, int64(0), f.ask("0", 0, 0, 1)[2], "a closed limit stays closed")
}

// S1 to S3, whatever is called: grants above the limit are those that replicas assert, and the rest is within it.
func TestGrantsStayWithinTheLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newFleet(t)
		had := map[string]int64{}
		for range rapid.IntRange(1, 60).Draw(t, "calls") {
			f.now += rapid.Int64Range(0, 2000).Draw(t, "ms")
			replica := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "replica")
			entry := f.ledger.Keys[model]
			before := int64(0)
			if entry != nil && entry.Holders[replica] != nil {
				before = entry.Holders[replica].Grant
			}
			keep := rapid.Int64Range(0, had[replica]).Draw(t, "keep")
			got := f.ask(replica, 6, keep, rapid.Int64Range(0, 9).Draw(t, "wants"))
			had[replica] = got[0]
			entry = f.ledger.Keys[model]
			total := int64(0)
			for _, h := range entry.Holders {
				total += h.Grant
			}
			require.Equal(t, total, entry.Granted)
			require.GreaterOrEqual(t, got[0], keep)
			if got[0] > max(before, keep) {
				require.LessOrEqual(t, total, int64(6), "it grew above the limit")
			}
		}
	})
}

func TestABoundOnReplicas(t *testing.T) {
	f := newFleet(t)
	for i := range MaxReplicas - len(f.ledger.Replicas) + 1 { // one has ended and is forgotten
		_, err := f.ledger.Lease(f.now, &LeaseCall{Replica: fmt.Sprint("r", i), Call: 1, TTL: 5000})
		require.NoError(t, err)
	}
	_, err := f.ledger.Lease(f.now, &LeaseCall{Replica: "more", Call: 1, TTL: 5000})
	require.ErrorIs(t, err, ErrFull)
	_, err = f.ledger.Lease(f.now, &LeaseCall{Replica: "r0", Call: 2, TTL: 5000})
	require.NoError(t, err)
	f.now += 5000
	_, err = f.ledger.Lease(f.now, &LeaseCall{Replica: "more", Call: 1, TTL: 5000})
	require.NoError(t, err)
}
