package main

import (
	"context"
	_ "embed"
	"os"
	"path/filepath"
	"time"

	"go.yaml.in/yaml/v3"
)

// lastAnswers has the parts of Envoy's configuration that answer the requests that are left at the end.
//
//go:embed lastanswers.yaml
var lastAnswers []byte

const (
	endingCall     = "/runtime_modify?headgate.ending=100" // has Envoy give the answer of lastanswers.yaml
	pressureName   = "pressure"
	pressureLooks  = 250 * time.Millisecond // how often Envoy looks at the pressure
	answeredWithin = 5 * time.Second        // a request that has not ended by then is cut
	repliesPath    = connectionPath + "local_reply_config/mappers/"
)

// addLastAnswers returns the bootstrap with what endRequests needs. The folder is Envoy's.
func addLastAnswers(bootstrap []byte, folder string) ([]byte, error) {
	var parts map[string]any
	if err := yaml.Unmarshal(lastAnswers, &parts); err != nil {
		return nil, err
	}
	pressure, err := filepath.Abs(filepath.Join(folder, pressureName))
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(pressure, []byte("0"), 0o600); err != nil {
		return nil, err
	}
	e := editYAML(bootstrap)
	e.insert("overload_manager/resource_monitors/0", parts["monitor"])
	e.set("overload_manager/resource_monitors/0/typed_config/filename", pressure)
	e.set("overload_manager/actions", []any{parts["action"]})
	e.set("overload_manager/refresh_interval", envoyDuration(pressureLooks))
	e.insert("layered_runtime/layers/0", parts["runtime"])
	e.insert(repliesPath+"2", parts["answer"]) // behind those of gRPC and of Headgate
	return e.bytes()
}

// endRequests has Envoy answer the requests that have no answer yet, and cut the others. It returns when that is done,
// or after a moment.
func (p *envoyProcess) endRequests(atOnce context.Context) {
	pressure := filepath.Join(p.dir.path, pressureName)
	if p.tell(endingCall) != nil || os.WriteFile(pressure+".new", []byte("1"), 0o600) != nil ||
		os.Rename(pressure+".new", pressure) != nil {
		return // they are cut
	}
	deadline := time.After(answeredWithin)
	for {
		if active, err := p.activeRequests(); err != nil || active == 0 {
			return
		}
		select {
		case <-atOnce.Done():
			return
		case <-p.ended:
			return
		case <-deadline:
			return
		case <-time.After(pollEvery):
		}
	}
}
