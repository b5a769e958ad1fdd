package rig

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
)

// An Object is a JSON object of Envoy's configuration.
type Object = map[string]any

// ErrUpdateRejected says that Envoy refused a listener or cluster; what it had before is still in force.
var ErrUpdateRejected = errors.New("Envoy rejected the update")

// A discovery is one kind of Envoy resource, handed over in a file that is replaced whole.
type discovery struct {
	path      string
	stat      string // prefix of Envoy's stats about it
	version   int
	resources map[string]Object
}

func newDiscovery(path, stat string) *discovery {
	return &discovery{path: path, stat: stat, resources: map[string]Object{}}
}

func (d *discovery) write() error {
	d.version++
	resources := []Object{}
	for _, name := range slices.Sorted(maps.Keys(d.resources)) {
		resources = append(resources, d.resources[name])
	}
	next := d.path + ".next"
	err := writeJSON(next, Object{"version_info": strconv.Itoa(d.version), "resources": resources})
	if err != nil {
		return err
	}
	return os.Rename(next, d.path) // Envoy watches for the rename, so it never reads half a file
}

func writeJSON(path string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}

// push hands the resources over and waits for Envoy's verdict.
func (e *Envoy) push(d *discovery) error {
	before, err := e.AdminStats("^" + d.stat)
	if err != nil {
		return err
	}
	if err := d.write(); err != nil {
		return err
	}
	rejected := false
	settled := Poll(Patience, func() bool {
		now, err := e.AdminStats("^" + d.stat)
		rejected = now.Count(d.stat+".update_rejected") > before.Count(d.stat+".update_rejected")
		return err == nil && (rejected || now.Text(d.stat+".version_text") == strconv.Itoa(d.version))
	})
	switch {
	case rejected:
		return ErrUpdateRejected
	case !settled:
		return fmt.Errorf("Envoy did not take %s within %v; its log ends with:\n%s", d.path, Patience, tail(e.Log(), 10))
	}
	return nil
}

// SetCluster adds or replaces a cluster.
func (e *Envoy) SetCluster(c Object) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.clusters.resources[c["name"].(string)] = c
	return e.push(e.clusters)
}

// SetListener adds or replaces a listener and returns when every worker serves it. If Envoy refuses it the error is
// ErrUpdateRejected and the listener stays as it was.
func (e *Envoy) SetListener(l Object) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	name := l["name"].(string)
	old, existed := e.listeners.resources[name]
	if reflect.DeepEqual(old, l) {
		return nil
	}
	stats, err := e.AdminStats("^listener_manager")
	if err != nil {
		return err
	}
	taken := stats.Count(listenersTaken)
	e.listeners.resources[name] = l
	if err := e.push(e.listeners); err != nil {
		delete(e.listeners.resources, name)
		if existed {
			e.listeners.resources[name] = old
		}
		return err
	}
	return e.awaitWorkers(taken + int64(e.Workers))
}

// listenersTaken counts one for each listener that a worker has taken over.
const listenersTaken = "listener_manager.listener_create_success"

func (e *Envoy) awaitWorkers(taken int64) error {
	if !Poll(Patience, func() bool {
		stats, err := e.AdminStats("^listener_manager")
		return err == nil && stats.Count(listenersTaken) >= taken
	}) {
		return fmt.Errorf("not every worker took the listener within %v", Patience)
	}
	return nil
}

// Remove takes listeners and clusters away; the listeners drain.
func (e *Envoy) Remove(names ...string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, d := range []*discovery{e.listeners, e.clusters} {
		size := len(d.resources)
		for _, name := range names {
			delete(d.resources, name)
		}
		if len(d.resources) == size {
			continue
		}
		if err := e.push(d); err != nil {
			return err
		}
	}
	return nil
}
