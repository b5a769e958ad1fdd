package clustersim

import (
	"flag"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/admission"
	"github.com/headgate/headgate/admission/fleet"
)

var (
	explore  = flag.Bool("explore", false, "run a million steps, and more")
	fromSeed = flag.Uint64("seed", 0, "run this seed alone")
)

// planOf is the plan of a seed.
func planOf(seed uint64, steps int) Plan {
	r := rand.New(rand.NewPCG(seed, 2))
	coin := func() bool { return r.IntN(2) == 0 }
	plan := Plan{
		Seed: seed, Replicas: 1 + r.IntN(5), Keys: 1 + r.IntN(3), Limit: int64(1 + r.IntN(12)), Steps: steps,
		Lease: []fleet.Duration{2, 5, 5, 10}[r.IntN(4)] * admission.Second, OnOutage: fleet.Outage(r.IntN(4)),
		Partitions: coin(), Pauses: coin(), Restarts: coin(), Failovers: coin(), LimitChanges: coin(), ServiceStops: coin(), PauseEvery: 20,
	}
	if coin() {
		plan.Loss, plan.Repeat, plan.Slow = r.Float64()/4, r.Float64()/4, r.Float64()/4
	}
	return plan
}

func TestSim(t *testing.T) {
	runs, steps := 50, 4000
	if *explore {
		runs, steps = 1000, 20_000
	}
	first := uint64(1)
	if *fromSeed != 0 {
		first, runs = *fromSeed, 1
	}
	for seed := range uint64(runs) {
		require.NoError(t, New(planOf(first+seed, steps)).Run(), "go test ./cluster/clustersim -run 'Sim$' -seed=%d", first+seed)
	}
}

// Each mutant is a fault that the checker sees.
func TestSimSeesMutants(t *testing.T) {
	for _, mutant := range []Mutant{OneStepShrink, LeaseOfReceipt, WantsAsGrant, NoLearning, LateCallCounts, KeepWithoutUse,
		OldLeaderCounts, EndlessLease, NoDebt} {
		t.Run(string(mutant), func(t *testing.T) {
			for seed := range uint64(400) {
				plan := planOf(seed+1, 6000)
				plan.Mutant = mutant
				if mutant == OldLeaderCounts {
					plan.PauseEvery = 3
				}
				plan.Pauses = plan.Pauses || mutant == OldLeaderCounts || mutant == EndlessLease
				plan.Restarts = plan.Restarts || mutant == NoLearning
				if err := New(plan).Run(); err != nil {
					t.Logf("seen: %v", err)
					return
				}
			}
			t.Fatal("nobody noticed")
		})
	}
}
