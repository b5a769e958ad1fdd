package pictures

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/headgate/headgate/envoy/rig"
)

// Configuration is the plugin configuration of the gateway in the pictures. %q is the stage.
const Configuration = `{"stage": %q, "domain": "default", "mode": "enforce",
	"identity": {"tenant": [{"header": "x-tenant", "trusted": true}], "model": [{"header": "x-model"}]},
	"pools": [
		{"name": "model", "key": ["model"], "limit": 12, "queue": 32, "max_wait": "10s", "fair_by": "tenant",
			"breaker": {"failures": 5, "window": "30s", "open": "90s"}},
		{"name": "gateway", "limit": 64}]}`

// A Load is clients of a gateway. First it is calm: chat and search have what they ask for.
type Load struct {
	gateway string
	ctx     context.Context
	leave   context.CancelFunc
	clients sync.WaitGroup
}

// Start starts the clients of a calm gateway.
func Start(gateway string) *Load {
	l := &Load{gateway: gateway}
	l.ctx, l.leave = context.WithCancel(context.Background())
	l.send(4, "chat", "gpt-4o", rig.Script{Delay: 900 * time.Millisecond}, 50*time.Millisecond)
	l.send(3, "search", "gpt-4o", rig.Script{Delay: 700 * time.Millisecond}, 50*time.Millisecond)
	l.send(3, "chat", "gpt-4o-mini", rig.Script{Delay: 400 * time.Millisecond}, 100*time.Millisecond)
	return l
}

// Stop ends all clients.
func (l *Load) Stop() {
	l.leave()
	l.clients.Wait()
}

// Flood has batch-jobs flood gpt-4o: within four minutes it comes to want three times as much as the limit allows.
func (l *Load) Flood() {
	for range 30 {
		l.send(1, "batch-jobs", "gpt-4o", rig.Script{Delay: 1200 * time.Millisecond}, time.Millisecond)
		l.pause(8 * time.Second)
	}
}

// Fail has o3 fail, which search goes on asking.
func (l *Load) Fail() {
	l.send(2, "search", "o3", rig.Script{Status: http.StatusServiceUnavailable}, 500*time.Millisecond)
}

// send starts clients of a tenant that each send one request after the other.
func (l *Load) send(clients int, tenant, model string, script rig.Script, pause time.Duration) {
	for range clients {
		l.clients.Go(func() {
			for l.ctx.Err() == nil {
				l.pause(max(pause, l.post(tenant, model, script)))
			}
		})
	}
}

func (l *Load) pause(d time.Duration) {
	select {
	case <-l.ctx.Done():
	case <-time.After(d):
	}
}

// post sends a chat completion, and returns when to come back if it was refused.
func (l *Load) post(tenant, model string, script rig.Script) time.Duration {
	name, value := script.Query()
	request, err := http.NewRequestWithContext(l.ctx, http.MethodPost, l.gateway+rig.Path, nil)
	if err != nil {
		panic(err)
	}
	query := request.URL.Query()
	query.Set(name, value)
	request.URL.RawQuery = query.Encode()
	request.Header.Set("x-tenant", tenant)
	request.Header.Set("x-model", model)
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return time.Second
	}
	reply.Body.Close()
	seconds, _ := strconv.Atoi(reply.Header.Get("retry-after"))
	return time.Duration(min(seconds, 2)) * time.Second
}
