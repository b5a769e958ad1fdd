package service_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/admission/fleet"
	"github.com/headgate/headgate/cluster/redistest"
	"github.com/headgate/headgate/cluster/service"
	"github.com/headgate/headgate/cluster/store"
)

// A gateway is a replica with one key, in real time. Its requests are so short that it never runs more than its share.
type gateway struct {
	mu      sync.Mutex
	began   time.Time
	replica *fleet.Replica
	share   fleet.Share
	wants   int
	urls    []string // of the services
	calls   int
}

const wholeLimit = 6

func newGateway(name string, urls ...string) *gateway {
	set := fleet.Settings{Domain: "d", Replica: name, Lease: fleet.Duration(2 * time.Second), Expected: 3, Seed: uint64(len(name)),
		OnOutage: fleet.OutageClosed} // so that the sum is exact on a machine that is slow too
	g := &gateway{began: time.Now(), urls: urls, replica: fleet.New(0, set)}
	g.share = fleet.Initial(0, &set, wholeLimit)
	return g
}

func (g *gateway) now() fleet.Time { return fleet.Time(time.Since(g.began)) + 1 }

// granted is what the gateway's record grants now.
func (g *gateway) granted() int {
	if g.now() < g.share.Until {
		return g.share.Limit
	}
	return g.share.After
}

func (g *gateway) mayUse() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.granted()
}

// inAll is what all gateways' records grant in one moment.
func inAll(gateways ...*gateway) (total int) {
	for _, g := range gateways {
		g.mu.Lock()
		defer g.mu.Unlock()
	}
	for _, g := range gateways {
		total += g.granted()
	}
	return total
}

func (g *gateway) state() fleet.State {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.replica.State(g.now())
}

func (g *gateway) want(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wants = n
}

func (g *gateway) changes() {
	g.replica.Changes(func(s fleet.Share) bool {
		g.share = s
		return true
	})
}

// turn is one tick of the gateway's worker.
func (g *gateway) turn() {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	used := min(g.wants, g.granted())
	g.replica.Observe(now, []fleet.Reading{{Pool: "model", Key: "m", Limit: wholeLimit, Share: g.granted(), Used: used, Waiting: g.wants - used}})
	g.changes()
	if now < g.replica.NextCall(now) {
		return
	}
	number, body := g.replica.Call(now)
	g.calls++
	go g.send(g.urls[g.calls%len(g.urls)], number, body)
}

func (g *gateway) send(url string, number int64, body []byte) {
	request, err := http.NewRequest(http.MethodPost, url+"/v1/lease", bytes.NewReader(body))
	if err != nil {
		panic(err) // the test's own
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer hush")
	answer, err := http.DefaultClient.Do(request)
	text, status := []byte{}, 0
	if err == nil {
		text, _ = io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		status = answer.StatusCode
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if status != http.StatusOK {
		g.replica.Fail(g.now(), number)
	} else {
		g.replica.Reply(g.now(), number, text)
	}
	g.changes()
}

// run drives the gateways until the test ends.
func run(t *testing.T, gateways ...*gateway) {
	var done sync.WaitGroup
	for _, g := range gateways {
		done.Go(func() {
			for t.Context().Err() == nil {
				g.turn()
				select {
				case <-time.After(20 * time.Millisecond):
				case <-t.Context().Done():
				}
			}
		})
	}
	t.Cleanup(done.Wait)
}

// Three replicas, two services, one Redis, in real time: the whole limit follows the load, leases end when Redis is away,
// and the limit is exact again when it comes back empty.
func TestThreeReplicasShareALimit(t *testing.T) {
	redis := redistest.Start(t)
	address, err := store.ParseAddress(redis.URL())
	require.NoError(t, err)
	var urls []string
	for range 2 {
		redisStore := store.New(address.Options(store.Settings{}))
		t.Cleanup(func() { _ = redisStore.Close() })
		server := httptest.NewServer(service.New(service.Settings{Store: redisStore, Token: "hush", Log: slog.New(slog.DiscardHandler)}))
		t.Cleanup(server.Close)
		urls = append(urls, server.URL)
	}
	a, b, c := newGateway("a", urls...), newGateway("bb", urls...), newGateway("ccc", urls...)
	run(t, a, b, c)
	within := func(what string, is func() bool) {
		t.Helper()
		began, most := time.Now(), 0
		require.True(t, redistest.Poll(30*time.Second, func() bool {
			most = max(most, inAll(a, b, c))
			return is()
		}), "%s: %d %d %d", what, a.mayUse(), b.mayUse(), c.mayUse())
		t.Logf("%s: after %.1f s, at most %d at once", what, time.Since(began).Seconds(), most)
		require.LessOrEqual(t, most, wholeLimit, what)
	}
	a.want(12)
	within("all of it where the load is", func() bool { return a.mayUse() == wholeLimit })
	a.want(0)
	b.want(12)
	within("the load has moved", func() bool { return b.mayUse() == wholeLimit })
	a.want(12)
	c.want(12)
	within("all want it", func() bool { return a.mayUse() == 2 && b.mayUse() == 2 && c.mayUse() == 2 })
	b.want(0)
	c.want(0)
	within("one wants it", func() bool { return a.mayUse() == wholeLimit })

	redis.Kill()
	within("Redis is away", func() bool {
		return a.state() == fleet.StateOutage && b.state() == fleet.StateOutage && c.state() == fleet.StateOutage &&
			inAll(a, b, c) == 0
	})
	redis.Restart()
	within("Redis is back", func() bool { return a.mayUse() == wholeLimit && c.state() == fleet.StateLeased })
}
