package main

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/top"
)

// present says how to use the gateway that listens on address, or with --tui has the terminal show it until done is
// called. The screen has what would have been said as one of its pages.
func (p *runPlan) present(asked *signals, term terminal, people io.Writer, address netip.AddrPort,
	proxy *envoyProcess) (done func()) {
	if !p.tui {
		p.announce(people, address, proxy)
		return func() {}
	}
	log := &top.Log{}
	p.announce(log, address, proxy)
	return p.showScreen(asked, term, "http://"+clientAddress(proxy.adminPage).String(), log)
}

// checkTUI looks for reasons why --tui can't show its screen.
func (p *runPlan) checkTUI(out io.Writer) error {
	switch {
	case !p.tui:
	case !p.admin.isOn():
		return errors.New("--tui asks the admin listener: leave out --tui or --admin off")
	case p.logAccess:
		return errors.New("--tui and --access-log both want standard output: leave out one of them")
	case !top.IsScreen(out):
		return errors.New("--tui wants standard output to be a terminal: leave it out, and run `headgate top` in one")
	}
	return nil
}

// showScreen has the terminal show what the admin listener at url says, until stop is called. What the gateway says in
// the meantime goes into log and is a part of the screen. The keys that end the gateway ask for that as a signal does.
func (p *runPlan) showScreen(asked *signals, term terminal, url string, log *top.Log) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	back := p.notes.moveTo(log)
	ended := make(chan error, 1)
	go func() {
		err := top.Run(ctx, top.Options{Admins: []string{url}, Interval: time.Second, In: term.in, Out: term.out,
			Own: &top.Own{Log: log, End: asked.ask}})
		if ctx.Err() == nil { // the screen can't go on: its terminal is gone
			asked.ask()
		}
		ended <- err
	}()
	return func() {
		cancel()
		err := <-ended
		back()
		if err != nil {
			p.notes.warn("--tui: %v", err)
		}
	}
}
