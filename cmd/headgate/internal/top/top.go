package top

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/charmbracelet/x/term"

	"github.com/headgate/headgate/cmd/headgate/internal/adminapi"
)

// Options are what to show, and where.
type Options struct {
	Admins   []string // as adminapi.ParseAddress returns them; at least one
	Once     bool     // show one state, and end
	JSON     bool     // as JSON: an object, or without Once one on each line
	Interval time.Duration
	In       io.Reader
	Out      io.Writer
	Own      *Own // the gateway that runs in this process; nil: none does
}

// An Own is a gateway that this process runs, for the screen that is shown over it.
type Own struct {
	Log *Log   // what the gateway says
	End func() // asks the gateway to end; called again it ends at once
}

// Run shows the state until ctx is done, or the user has had enough. It shows it live where Out is a terminal that can
// do so, and as lines of text otherwise.
func Run(ctx context.Context, o Options) error {
	gateways := []*gateway{}
	for _, admin := range o.Admins {
		gateways = append(gateways, &gateway{client: adminapi.NewClient(admin)})
	}
	switch {
	case o.Once:
		return once(ctx, o, gateways)
	case o.JSON || !IsScreen(o.Out):
		return lines(ctx, o, gateways)
	}
	return screen(ctx, o, gateways)
}

// IsScreen reports whether w is a terminal on which a cursor can be moved.
func IsScreen(w io.Writer) bool {
	file, isFile := w.(*os.File)
	if name := os.Getenv("TERM"); !isFile || name == "" || name == "dumb" {
		return false
	}
	return term.IsTerminal(file.Fd())
}

// A gateway is an admin listener and what it has told.
type gateway struct {
	client *adminapi.Client
	state  *adminapi.State // the last one, nil: none yet
	err    error           // of the last question, nil: it was answered
	since  time.Time       // when the first of the questions failed that had no answer since

	events    []adminapi.Event // oldest first
	last      int64            // the newest event that is known
	eventsErr error
}

// keptEvents bounds what is kept of a gateway's events.
const keptEvents = 2000

// An answer is what a gateway has said when it was asked.
type answer struct {
	state     *adminapi.State
	events    *adminapi.Events
	err       error
	eventsErr error
}

// ask asks a gateway for its state, and for events that are newer than after. Below 0: for none.
func ask(ctx context.Context, client *adminapi.Client, after int64) answer {
	var a answer
	if a.state, a.err = client.State(ctx); a.err != nil || after < 0 {
		return a
	}
	a.events, a.eventsErr = client.Events(ctx, after)
	if a.eventsErr == nil && a.events.Last < after { // it has started anew
		a.events, a.eventsErr = client.Events(ctx, 0)
	}
	return a
}

// take keeps an answer. After a question without an answer the last state stays.
func (g *gateway) take(a answer, now time.Time) {
	if a.err != nil {
		if g.err == nil {
			g.since = now
		}
		g.err = a.err
		return
	}
	g.state, g.err = a.state, nil
	g.eventsErr = a.eventsErr
	if a.events == nil {
		return
	}
	if a.events.Last < g.last {
		g.events = nil
	}
	g.last = a.events.Last
	g.events = append(g.events, a.events.Events...)
	if excess := len(g.events) - keptEvents; excess > 0 {
		g.events = append([]adminapi.Event{}, g.events[excess:]...)
	}
}

// place is the address without what is the same for all.
func (g *gateway) place() string { return strings.TrimPrefix(g.client.Address(), "http://") }

// reason is why a gateway doesn't answer, without its address.
func (g *gateway) reason() string {
	var away *adminapi.Unreachable
	if errors.As(g.err, &away) {
		return away.Reason()
	}
	return g.err.Error()
}

// askAll asks all gateways at the same time and returns the sum of their answers.
func askAll(ctx context.Context, gateways []*gateway) *State {
	var asked sync.WaitGroup
	for _, g := range gateways {
		asked.Go(func() { g.take(ask(ctx, g.client, -1), time.Now()) })
	}
	asked.Wait()
	return sumOf(gateways)
}

// sumOf is the sum of the gateways that answer.
func sumOf(gateways []*gateway) *State {
	parts := []part{}
	for _, g := range gateways {
		parts = append(parts, part{g.client.Address(), g.state, g.err})
	}
	return merge(parts)
}

// once prints one state. It fails when a gateway doesn't answer, after it has printed what the others say.
func once(ctx context.Context, o Options, gateways []*gateway) error {
	sum := askAll(ctx, gateways)
	away := []error{}
	for _, g := range gateways {
		if g.err != nil {
			away = append(away, g.err)
		}
	}
	if len(away) == len(gateways) {
		return awayError(away)
	}
	if o.JSON {
		text, err := json.MarshalIndent(sum, "", "  ")
		if err != nil {
			return err
		}
		fmt.Fprintf(o.Out, "%s\n", text)
	} else {
		printTable(o.Out, sum)
	}
	if len(away) > 0 {
		return fmt.Errorf("%d of %s did not answer, the figures are without: %w", len(away),
			counted(len(gateways), "gateway"), awayError(away))
	}
	return nil
}

// awayError is one line for all gateways that don't answer.
func awayError(away []error) error {
	if len(away) == 1 {
		return away[0]
	}
	texts := []string{}
	for _, err := range away {
		texts = append(texts, err.Error())
	}
	return errors.New(strings.Join(texts, "; "))
}

// lines prints a table, or a line of JSON, again and again.
func lines(ctx context.Context, o Options, gateways []*gateway) error {
	next := time.NewTicker(o.Interval)
	defer next.Stop()
	for {
		sum := askAll(ctx, gateways)
		if ctx.Err() != nil {
			return nil
		}
		if err := printLines(o, gateways, sum); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-next.C:
		}
	}
}

func printLines(o Options, gateways []*gateway, sum *State) error {
	if o.JSON {
		return json.NewEncoder(o.Out).Encode(sum)
	}
	fmt.Fprintf(o.Out, "%s\n", clock(time.Now()))
	answered := 0
	for _, g := range gateways {
		if g.err != nil {
			fmt.Fprintf(o.Out, "%s is away since %s: %s\n", g.place(), clock(g.since), shown(g.reason()))
			continue
		}
		answered++
	}
	if answered > 0 {
		printTable(o.Out, sum)
	}
	_, err := fmt.Fprintln(o.Out)
	return err
}
