package admission_test

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/headgate/headgate/admission/admissiontest"
)

// The fairness simulation runs tenants against one pool in virtual time, under three disciplines. Two are the core's:
// first come, first served, and ours. The third is round robin, which is here. What they give each tenant is judged by
// an independent calculation of what would be fair.

// fairShare is the weighted max-min allocation of capacity. No tenant gets more than it demands. No tenant could get
// more unless another that has less for its weight got less.
func fairShare(capacity float64, demand, weight []float64) []float64 {
	share := make([]float64, len(demand))
	open := map[int]bool{}
	for i, d := range demand {
		open[i] = d > 0
	}
	for {
		sum, left := 0.0, capacity
		for i := range demand {
			if open[i] {
				sum += weight[i]
			} else {
				left -= share[i]
			}
		}
		if sum == 0 {
			return share
		}
		level, filled := left/sum, false
		for i, d := range demand {
			if open[i] && d <= level*weight[i] {
				share[i], open[i], filled = d, false, true
			}
		}
		if !filled {
			for i := range demand {
				if open[i] {
					share[i] = level * weight[i]
				}
			}
			return share
		}
	}
}

func TestFairShare(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		capacity             float64
		demand, weight, want []float64
	}{
		{10, []float64{inf, inf}, []float64{1, 1}, []float64{5, 5}},
		{10, []float64{inf, 2}, []float64{1, 1}, []float64{8, 2}},
		{10, []float64{3, 2}, []float64{1, 1}, []float64{3, 2}},
		{12, []float64{inf, inf}, []float64{1, 3}, []float64{3, 9}},
		{12, []float64{inf, 4, 1}, []float64{1, 1, 1}, []float64{7, 4, 1}},
		{12, []float64{inf, 4, 9}, []float64{1, 3, 2}, []float64{8. / 3, 4, 16. / 3}},
		{0, []float64{1, 1}, []float64{1, 1}, []float64{0, 0}},
		{5, []float64{0, inf}, []float64{5, 1}, []float64{0, 5}},
	} {
		got := fairShare(c.capacity, c.demand, c.weight)
		for i := range got {
			if math.Abs(got[i]-c.want[i]) > 1e-9 {
				t.Errorf("%v of demands %v, weights %v: %v, want %v", c.capacity, c.demand, c.weight, got, c.want)
				break
			}
		}
	}
}

// The scenarios of the table. A always has 40 clients with streams of 60 s.
var (
	hog  = simTenant{name: "A", threads: 40, stream: 60}
	simS = map[string]simScenario{
		"S1": {10, 200, 30, []simTenant{hog, {name: "B", threads: 40, stream: 2}}, 4},
		"S2": {10, 200, 30, []simTenant{hog, {name: "B", rate: 1, stream: 2}}, 8},
		"S4": {10, 200, 30, []simTenant{hog, {name: "B", rate: 0.1, burst: 300, stream: 60}}, 24},
		"S5": {12, 200, 30, []simTenant{{name: "A", weight: 1, threads: 40, stream: 10}, {name: "B", weight: 3, threads: 40, stream: 10}}, 4},
	}
)

func disciplines(sc simScenario) []struct {
	name string
	d    discipline
} {
	return []struct {
		name string
		d    discipline
	}{
		{"first come, first served", &coreDiscipline{simScenario: sc}},
		{"round robin", &roundRobin{simScenario: sc}},
		{"least inflight per weight (ours)", &coreDiscipline{simScenario: sc, fair: true}},
	}
}

// TestFairness makes the table of docs/rationale-fairness.md and holds our rule to what it promises.
func TestFairness(t *testing.T) {
	var rows [3][]string
	for i, d := range disciplines(simS["S1"]) {
		rows[i] = append(rows[i], d.name)
	}
	for _, name := range []string{"S1", "S2", "S4", "S5"} {
		sc := simS[name]
		for i, d := range disciplines(sc) {
			results := simulate(sc, d.d)
			a, b := results[0], results[1]
			cell := fmt.Sprintf("%.2f : %.2f; %.1f, %.1f s; %.0f %%",
				a.permits, b.permits, b.percentile(0.5), b.percentile(0.99), 100*b.shedShare())
			rows[i] = append(rows[i], strings.ReplaceAll(cell, "NaN, NaN s", "never"))
			if i == 2 {
				judge(t, name, sc, results)
			}
		}
	}
	var table strings.Builder
	table.WriteString("| who is next | S1: B = 40 clients, 2 s | S2: B = open load of 2 permits, 2 s " +
		"| S4: B = bursts of 6 permits, 60 s | S5: weights 1 : 3, 10 s |\n|---|---|---|---|---|\n")
	for _, r := range rows {
		table.WriteString("| " + strings.Join(r, " | ") + " |\n")
	}
	t.Log("\n" + table.String())
	checkDocument(t, "../docs/rationale-fairness.md", table.String())
}

// judge compares what our rule gave with what is fair.
func judge(t *testing.T, name string, sc simScenario, results []simResult) {
	t.Helper()
	var demand, weight []float64
	for i, tenant := range sc.tenants {
		demand = append(demand, results[i].demand)
		weight = append(weight, float64(max(tenant.weight, 1)))
	}
	fair := fairShare(float64(sc.capacity), demand, weight)
	for i, r := range results {
		t.Logf("%s %s: %.2f permits, fair would be %.2f; wait %.1f s, p99 %.1f s; %.1f %% shed", name, sc.tenants[i].name,
			r.permits, fair[i], r.percentile(0.5), r.percentile(0.99), 100*r.shedShare())
	}
	b := results[1]
	switch name {
	case "S1": // two tenants, 60 s against 2 s: B's share within 5 %, and next to none of its requests are shed
		if math.Abs(b.permits-fair[1]) > 0.05*fair[1] || math.Abs(results[0].permits-fair[0]) > 0.5 || b.shedShare() > 0.01 {
			t.Errorf("S1: %.2f : %.2f, %.2f %% of B's requests shed", results[0].permits, b.permits, 100*b.shedShare())
		}
	case "S2":
		if b.shedShare() > 0.03 || math.Abs(b.permits-fair[1]) > 0.05*fair[1] {
			t.Errorf("S2: B has %.2f permits, %.2f %% shed", b.permits, 100*b.shedShare())
		}
	case "S4":
		if b.shedShare() > 0.25 { // its bursts ask for more than half, and wait for streams of a minute to end
			t.Errorf("S4: %.2f %% of B's requests shed", 100*b.shedShare())
		}
	case "S5":
		if math.Abs(results[0].permits-fair[0]) > 0.05*fair[0] || math.Abs(b.permits-fair[1]) > 0.05*fair[1] {
			t.Errorf("S5: %.2f : %.2f, fair would be %.2f : %.2f", results[0].permits, b.permits, fair[0], fair[1])
		}
	}
}

// checkDocument makes sure that a document has the table.
func checkDocument(t *testing.T, file, table string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	from := strings.Index(string(text), "| who is next")
	to := strings.LastIndex(string(text), "|\n") + 2
	if from < 0 {
		t.Fatalf("%s has no table", file)
	}
	if string(text[from:to]) == table {
		return
	}
	if !*rewrite {
		t.Fatalf("%s has another table (-rewrite writes it)", file)
	}
	if err := os.WriteFile(file, []byte(string(text[:from])+table+string(text[to:])), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestCase_O07_FloodStarvesNobody: one tenant sends twice what fits; the others, who ask for little, are never refused
// and never wait longer than the streams that are running, two service times at most. The watch sees I1 to I7 hold all
// along.
func TestCase_O07_FloodStarvesNobody(t *testing.T) {
	sc := simScenario{4, 24, 30, []simTenant{
		{name: "flood", rate: 40, stream: 0.2}, {name: "B", rate: 1, stream: 0.2}, {name: "C", rate: 0.5, stream: 0.2}}, 0.2}
	d := &coreDiscipline{simScenario: sc, fair: true, watch: &admissiontest.Watch{}}
	results := simulate(sc, d)
	if d.err != nil {
		t.Error(d.err)
	}
	total := 0.0
	for i, r := range results {
		total += r.permits
		if i > 0 && (r.rejected > 0 || r.shed > 0 || r.percentile(0.99) > 0.4) {
			t.Errorf("%s: %d rejected, %d shed, p99 %.2f s", sc.tenants[i].name, r.rejected, r.shed, r.percentile(0.99))
		}
	}
	if results[0].rejected == 0 {
		t.Error("the flood was no flood")
	}
	if total < 3.99 {
		t.Errorf("the pool idled: %.2f of 4 permits inflight", total)
	}
}

// TestManyTenantsShareEqually: tenants share equally, within one permit, whatever the lengths of their streams. It is
// not exact, because no permit is taken away: what one tenant leaves for a moment, a long stream keeps for longer than
// a short one.
func TestManyTenantsShareEqually(t *testing.T) {
	sc := simScenario{22, 400, 60, []simTenant{{threads: 20, stream: 1}, {threads: 20, stream: 4},
		{threads: 20, stream: 16}, {threads: 20, stream: 64}, {threads: 2, stream: 5}}, 4}
	results := simulate(sc, &coreDiscipline{simScenario: sc, fair: true})
	var demand, weight []float64
	for i := range results {
		demand, weight = append(demand, results[i].demand), append(weight, 1)
	}
	fair := fairShare(22, demand, weight)
	for i, r := range results {
		t.Logf("%.0f s streams: %.2f permits, fair would be %.2f", sc.tenants[i].stream, r.permits, fair[i])
		if math.Abs(r.permits-fair[i]) > 1 {
			t.Errorf("tenant %d: %.2f permits, fair would be %.2f", i, r.permits, fair[i])
		}
	}
}

// TestDemandDoubles: a tenant that was idle gets no more than its share, and one that was busy no less.
func TestDemandDoubles(t *testing.T) {
	sc := simScenario{10, 200, 60, []simTenant{{threads: 20, stream: 10}, {threads: 20, stream: 10, begins: 3600}}, 3}
	late := simulate(sc, &coreDiscipline{simScenario: sc, fair: true})
	measured := sc.hours*3600 - simWarmup
	if want := 5 * (sc.hours*3600 - 3600) / measured; math.Abs(late[1].permits-want) > 0.05*want {
		t.Errorf("the late tenant had %.2f permits on average, fair would be %.2f", late[1].permits, want)
	}
}
