package service

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/headgate/headgate/cluster"
)

// metrics are the service's own. No label has a value that callers choose.
type metrics struct {
	handler     http.Handler
	requests    *prometheus.CounterVec
	seconds     *prometheus.HistogramVec
	keys        prometheus.Counter
	late        prometheus.Counter
	expired     prometheus.Counter
	learning    prometheus.Counter
	redisErrors prometheus.Counter
	redisUp     prometheus.Gauge
}

func newMetrics() *metrics {
	registry := prometheus.NewRegistry()
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: "headgate_fleet", Name: name, Help: help})
		registry.MustRegister(c)
		return c
	}
	m := &metrics{
		handler: promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "headgate_fleet", Name: "requests_total",
			Help: "Requests by path and status."}, []string{"path", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "headgate_fleet", Name: "request_seconds",
			Help:    "How long requests took, by path.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5}}, []string{"path"}),
		keys:        counter("lease_keys_total", "Keys in the lease calls that were carried out."),
		late:        counter("late_calls_total", "Lease calls that came after a later one of the same replica."),
		expired:     counter("expired_replicas_total", "Replicas whose lease ended without a call."),
		learning:    counter("learning_calls_total", "Lease calls answered while grants don't grow, since Redis was new."),
		redisErrors: counter("redis_errors_total", "Calls that Redis did not carry out."),
		redisUp: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "headgate_fleet", Name: "redis_up",
			Help: "1 if Redis did what it was last asked, else 0."}),
	}
	registry.MustRegister(m.requests, m.seconds, m.redisUp, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *metrics) leased(reply *cluster.LeaseReply) {
	m.keys.Add(float64(len(reply.Pools)))
	m.expired.Add(float64(reply.Expired))
	if reply.Learning > 0 {
		m.learning.Inc()
	}
}

// counted counts what a handler does under a name for its path.
func (m *metrics) counted(path string, handle http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		seen := &statusSeen{ResponseWriter: w, status: http.StatusOK}
		handle(seen, r)
		m.requests.WithLabelValues(path, strconv.Itoa(seen.status)).Inc()
		m.seconds.WithLabelValues(path).Observe(time.Since(began).Seconds())
	}
}

// statusSeen remembers an answer's status.
type statusSeen struct {
	http.ResponseWriter
	status int
}

func (s *statusSeen) WriteHeader(status int) {
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.MaxBytesReader and the like.
func (s *statusSeen) Unwrap() http.ResponseWriter { return s.ResponseWriter }
