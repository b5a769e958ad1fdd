package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// signals is what the signals that come ask for.
type signals struct {
	end    context.Context // done when a signal asks to end: what runs may finish
	atOnce context.Context // done when a second one does
	reread chan struct{}   // a SIGHUP asks to read the configuration again
	ask    func()          // asks to end, as a signal does
	stop   func()          // gives the signals back
}

// catchSignals catches the signals. A SIGHUP asks to end, like the others, where there is no configuration to read
// again or where it says that the terminal has gone.
func catchSignals(hasFile bool) *signals {
	s := &signals{reread: make(chan struct{}, 1)}
	end, asksEnd := context.WithCancel(context.Background())
	atOnce, asksAtOnce := context.WithCancel(context.Background())
	s.end, s.atOnce = end, atOnce
	hadTerminal := hasTerminal()
	came := make(chan os.Signal, 8)
	signal.Notify(came, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		for one := range came {
			rereads := one == syscall.SIGHUP && hasFile && hasTerminal() == hadTerminal
			switch {
			case rereads && len(s.reread) == 0:
				s.reread <- struct{}{}
			case rereads: // one is asked for already
			case end.Err() == nil:
				asksEnd()
			default:
				asksAtOnce()
			}
		}
		asksEnd()
		asksAtOnce()
	}()
	s.ask = func() {
		select {
		case came <- os.Interrupt:
		default: // enough were asked for
		}
	}
	s.stop = func() { signal.Stop(came); close(came) }
	return s
}

// hasTerminal reports whether this process has a controlling terminal.
func hasTerminal() bool {
	file, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	return file.Close() == nil
}
