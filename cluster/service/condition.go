package service

import (
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// logEvery is how often an error that goes on stands in the log.
const logEvery = 10 * time.Second

// A condition is whether Redis does what it is asked. A change stands in the log, and so does an error that goes on,
// now and then, with how often it came.
type condition struct {
	log    *slog.Logger
	gauge  prometheus.Gauge
	mu     sync.Mutex
	known  bool
	well   bool
	logged time.Time
	since  int // errors since then
}

func (c *condition) isWell() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known && c.well {
		return
	}
	c.known, c.well = true, true
	c.gauge.Set(1)
	c.log.Info("Redis answers")
}

func (c *condition) isIll(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.since++
	c.gauge.Set(0)
	isNews := !c.known || c.well
	c.known, c.well = true, false
	if now := time.Now(); isNews || now.Sub(c.logged) >= logEvery {
		c.log.Error("Redis does not answer as it should", "error", err, "times", c.since)
		c.logged, c.since = now, 0
	}
}

// readyFor is how long an answer about readiness stands.
const readyFor = 250 * time.Millisecond

// readiness asks once for all who ask in the same moment: whoever can reach the service can ask.
type readiness struct {
	check func() error
	mu    sync.Mutex
	asked time.Time
	err   error
}

func (r *readiness) get() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.asked) > readyFor {
		r.err = r.check()
		r.asked = time.Now()
	}
	return r.err
}
