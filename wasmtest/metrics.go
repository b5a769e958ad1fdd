package wasmtest

import (
	"fmt"
	"slices"
)

// MetricType is the kind of a metric.
type MetricType uint32

// The metric types of proxy-wasm 0.2.1.
const (
	Counter   MetricType = 0
	Gauge     MetricType = 1
	Histogram MetricType = 2
)

// String returns the type's name in lower case.
func (t MetricType) String() string {
	switch t {
	case Counter:
		return "counter"
	case Gauge:
		return "gauge"
	case Histogram:
		return "histogram"
	}
	return fmt.Sprintf("MetricType(%d)", uint32(t))
}

// Metric is a metric's state. One name and type is one metric for all VMs, and it outlives them.
type Metric struct {
	Name string
	Type MetricType
	// Value of a counter or gauge. A gauge that went below zero has wrapped, as Envoy's does.
	Value uint64
	// Recorded are the values given to a histogram, in order.
	Recorded []uint64
}

type metricKey struct {
	kind MetricType
	name string
}

// metrics is the store all VMs share. A VM's ids for its entries are its own (see VM.metrics).
type metrics struct {
	byKey map[metricKey]*Metric
}

func newMetrics() metrics { return metrics{byKey: map[metricKey]*Metric{}} }

func (s *metrics) define(kind MetricType, name []byte) *Metric {
	if m := s.byKey[metricKey{kind, string(name)}]; m != nil {
		return m
	}
	m := &Metric{Name: string(name), Type: kind}
	s.byKey[metricKey{kind, m.Name}] = m
	return m
}

// Counter returns the value of a counter, 0 when no VM has defined it.
func (h *Host) Counter(name string) uint64 { return h.metricValue(Counter, name) }

// Gauge returns the value of a gauge, 0 when no VM has defined it.
func (h *Host) Gauge(name string) uint64 { return h.metricValue(Gauge, name) }

// Histogram returns the values recorded, in order.
func (h *Host) Histogram(name string) []uint64 {
	if m := h.metrics.byKey[metricKey{Histogram, name}]; m != nil {
		return slices.Clone(m.Recorded)
	}
	return nil
}

// Metrics returns a copy of every metric, by name, then type.
func (h *Host) Metrics() []Metric {
	all := make([]Metric, 0, len(h.metrics.byKey))
	for _, m := range h.metrics.byKey {
		c := *m
		c.Recorded = slices.Clone(m.Recorded)
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b Metric) int {
		if a.Name != b.Name {
			if a.Name < b.Name {
				return -1
			}
			return 1
		}
		return int(a.Type) - int(b.Type)
	})
	return all
}

func (h *Host) metricValue(kind MetricType, name string) uint64 {
	if m := h.metrics.byKey[metricKey{kind, name}]; m != nil {
		return m.Value
	}
	return 0
}

// A metric id carries its type in the two low bits and counts up per VM: each definition makes a new id, also of a name
// the VM has already.
const metricIDStep = 4

func (vm *VM) defineMetric(kind MetricType, name []byte) uint32 {
	if vm.metrics == nil {
		vm.metrics = map[uint32]*Metric{}
	}
	vm.lastMetric[kind] += metricIDStep
	id := vm.lastMetric[kind] | uint32(kind)
	vm.metrics[id] = vm.host.metrics.define(kind, name)
	return id
}

func (vm *VM) incrementMetric(id uint32, delta int64) Status {
	m := vm.metrics[id]
	switch {
	case MetricType(id&3) > Gauge:
		return StatusBadArgument
	case m == nil:
		return StatusNotFound
	case m.Type == Counter && delta <= 0:
		return StatusBadArgument
	}
	if m.Type == Gauge && delta < 0 && uint64(-delta) > m.Value {
		vm.violate(GaugeWrapped, "gauge %q at %d incremented by %d", m.Name, m.Value, delta)
	}
	m.Value += uint64(delta)
	return StatusOk
}

func (vm *VM) recordMetric(id uint32, value uint64) Status {
	m := vm.metrics[id]
	if m == nil {
		return StatusNotFound
	}
	switch m.Type {
	case Counter:
		m.Value += value // not an overwrite: the real host adds
	case Gauge:
		m.Value = value
	case Histogram:
		m.Recorded = append(m.Recorded, value)
	}
	return StatusOk
}

func (vm *VM) getMetric(id uint32) (uint64, Status) {
	m := vm.metrics[id]
	switch {
	case MetricType(id&3) > Gauge:
		return 0, StatusBadArgument
	case m == nil:
		return 0, StatusNotFound
	}
	return m.Value, StatusOk
}
