package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"time"
)

// A reload watches the file of --config and hands a changed one to the running Envoy. It reads the file anew instead
// of watching for events: that sees every way in which a file changes, such as a write in place, a rename, and the
// symbolic links of a Kubernetes ConfigMap.
type reload struct {
	plan      *runPlan
	proxy     *envoyProcess
	discovery *discovery
	rest      []byte // the part of the bootstrap that Envoy reads at its start only
	judged    []byte // the text that was taken or refused last
	seen      []byte // a new text that was read once: whoever writes it may not be done
	missing   bool   // the file could not be read the last time
}

const (
	watchEvery  = 250 * time.Millisecond
	takenWithin = 20 * time.Second // Envoy takes a change within a moment, on a busy machine within seconds
)

// look takes the file if it has changed and is the same as at the last look.
func (r *reload) look(ctx context.Context) {
	text, ok := r.read()
	switch {
	case !ok:
	case bytes.Equal(text, r.judged):
		r.seen = nil
	case r.seen == nil || !bytes.Equal(text, r.seen):
		r.seen = text
	default:
		r.take(ctx, text)
	}
}

// lookAtOnce takes the file if it has changed.
func (r *reload) lookAtOnce(ctx context.Context) {
	text, ok := r.read()
	if ok && bytes.Equal(text, r.judged) {
		r.plan.notes.say("%s has not changed", r.plan.configPath)
	} else if ok {
		r.take(ctx, text)
	}
}

// read returns the file's text. When it can't be read, it says so once.
func (r *reload) read() (text []byte, ok bool) {
	text, err := readBounded(r.plan.configPath)
	if err != nil && !r.missing {
		r.plan.notes.say("%v; the configuration before goes on", err)
	}
	r.missing = err != nil
	return text, err == nil
}

// take has Envoy run with the configuration in text. If that is not possible, the one before goes on.
func (r *reload) take(ctx context.Context, text []byte) {
	r.judged, r.seen = text, nil
	before := r.plan.file
	file, err := parsePluginFile(r.plan.configPath, text)
	if err == nil {
		r.plan.file = file
		err = r.handOver(ctx)
	}
	if err != nil {
		r.plan.file = before
	}
	switch {
	case ctx.Err() != nil: // the gateway ends
	case err != nil:
		r.plan.notes.say("%v; the configuration before goes on", err)
	default:
		r.plan.shadows.Store(r.plan.modeInForce() == "shadow")
		r.plan.notes.say("%s has changed: the new configuration runs", r.plan.configPath)
	}
}

// handOver gives Envoy the plan's configuration and waits until it runs with that. After a refusal Envoy gets back the
// parts that it had, since it may have taken some of the new ones.
func (r *reload) handOver(ctx context.Context) error {
	bootstrap, err := r.plan.renderBootstrap()
	if err != nil {
		return err
	}
	rest, parts, err := r.discovery.split(bootstrap, r.plan.renderedStages())
	if err != nil {
		return err
	}
	before := r.discovery.parts
	if err := r.push(ctx, parts); err != nil {
		_ = r.discovery.write(before) // the error is what matters
		return fmt.Errorf("%s: %w", r.plan.configPath, err)
	}
	if !bytes.Equal(rest, r.rest) {
		r.plan.notes.warn("%s changes the longest wait, and Envoy's own timeouts stay as they were at the start: start "+
			"headgate again to have them follow", r.plan.configPath)
	}
	return nil
}

// push writes the parts and waits for Envoy's verdict.
func (r *reload) push(ctx context.Context, parts map[string]any) error {
	_, before, err := r.discovery.verdict(r.proxy)
	if err != nil {
		return err
	}
	if err := r.discovery.write(parts); err != nil {
		return err
	}
	return r.taken(ctx, before)
}

// taken waits until Envoy has taken the parts that were written last. It had refused some before that, so many times.
func (r *reload) taken(ctx context.Context, before int) error {
	deadline := time.After(takenWithin)
	for {
		taken, refused, err := r.discovery.verdict(r.proxy)
		switch {
		case err != nil:
			return err
		case refused > before:
			return fmt.Errorf("Envoy refused the configuration: %s", r.refusal())
		case taken == len(r.discovery.parts):
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.proxy.ended:
			return r.proxy.endError("ended")
		case <-deadline:
			return fmt.Errorf("Envoy has not taken it within %v", takenWithin)
		case <-time.After(pollEvery):
		}
	}
}

// refusal is the line of Envoy's log about the part that it refused last.
func (r *reload) refusal() string {
	log, err := os.ReadFile(r.proxy.logPath())
	if err != nil {
		return err.Error()
	}
	reason := "see its log, " + r.proxy.logPath()
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, "rejected") {
			reason = strings.TrimSpace(logPrefix.ReplaceAllString(line, ""))
		}
	}
	return reason
}
