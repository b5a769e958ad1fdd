package clients

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate/envoy/rig"
)

// An attempt is one try of a client's, in seconds since all began.
type attempt struct {
	At, Ended, After float64
	Status           int
}

// The official client comes back when it is told to. Those that are refused together come back spread out, and near the
// time at which a permit is free.
func TestFinding_A3_PythonClientsComeBackSpreadOut(t *testing.T) {
	python := get(t, "python")
	const each = 2 * time.Second
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		<-time.After(each) // the model works
		fmt.Fprint(w, openai.plain)
	}))
	t.Cleanup(server.Close)
	env := rig.New(t, rig.Shared(t, 2), rig.Setup{
		Config:   &rig.Config{Pools: []rig.Pool{{Name: "model", Limit: 2, Queue: 2, MaxWait: "30s"}}},
		Clusters: []rig.Object{rig.Cluster("working", server.Listener.Addr().(*net.TCPAddr).Port)},
		Routes:   func(string) []rig.Object { return []rig.Object{rig.Route("/", "working")} },
	})
	const clients = 12
	for range 2 { // so that it is known how long a call takes
		comeBack(t, env, python, 1)
	}
	all := comeBack(t, env, python, clients)
	var second []float64
	for i, tries := range all {
		if last := tries[len(tries)-1]; last.Status != http.StatusOK {
			t.Errorf("client %d ends with %d", i, last.Status)
		}
		for j := 1; j < len(tries); j++ {
			if waited := tries[j].At - tries[j-1].Ended; waited < tries[j-1].After-0.1 {
				t.Errorf("client %d came back after %.1f s, and was told %.0f", i, waited, tries[j-1].After)
			}
			// Four are ahead of a refused one, two in each 2 s. A half more, and a second of rounding.
			if after := tries[j-1].After; after < 1 || after > 8 {
				t.Errorf("client %d was told %.0f s", i, after)
			}
		}
		if len(tries) > 1 {
			second = append(second, tries[1].At)
		}
	}
	if len(second) != clients-4 {
		t.Fatalf("%d of %d were refused, want all but two that run and two that wait", len(second), clients)
	}
	if spread := slices.Max(second) - slices.Min(second); spread < 0.9 {
		t.Errorf("those that were refused together came back within %.1f s: %.1f", spread, second)
	}
	env.AwaitDrained(t, "model")
}

// comeBack lets clients call at once, and returns the attempts of each.
func comeBack(t *testing.T, env *rig.Env, python string, clients int) (all [][]attempt) {
	t.Helper()
	d := start(t, python, "comeback.py", env.URL(), fmt.Sprint(clients))
	if !d.out.Scan() {
		t.Fatalf("the clients ended without a word: %s", d.stderr.String())
	}
	if err := json.Unmarshal(d.out.Bytes(), &all); err != nil {
		t.Fatal(err)
	}
	return all
}
