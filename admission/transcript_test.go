package admission_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/admission"
)

var rewrite = flag.Bool("rewrite", false, "write what the transcripts print into their files")

// TestTranscripts replays testdata/transcripts: commands, each followed by what it did and the record after it. Every
// step is also compared with the reference model and judged by the watch.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/transcripts/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := runTranscript(t, string(want))
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != string(want) {
				t.Errorf("%s differs (-rewrite writes it):\n%s", file, diffLines(string(want), got))
			}
		})
	}
}

// diffLines shows the first lines that differ.
func diffLines(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range g {
		if i >= len(w) || w[i] != g[i] {
			line := ""
			if i < len(w) {
				line = w[i]
			}
			return fmt.Sprintf("line %d\n  want %s\n  got  %s", i+1, line, g[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(g), len(w))
}

// runTranscript carries out the commands of a transcript. A command stands at the start of a line; what it printed
// follows, indented.
func runTranscript(t *testing.T, text string) string {
	var out strings.Builder
	tr := &transcript{rig: newRig(t), t: t}
	tr.weights = map[uint64]uint32{}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, " "):
			continue
		case line == "" || strings.HasPrefix(line, "#"):
			fmt.Fprintln(&out, line)
			continue
		}
		fmt.Fprintln(&out, line)
		for _, printed := range tr.run(parseCommand(line)) {
			fmt.Fprintln(&out, "  "+printed)
		}
	}
	return out.String()
}

// A transcript is the replay of one.
type transcript struct {
	*rig
	t     *testing.T
	start int64
}

// A command is one line of a transcript, in pieces.
type command struct {
	name    string
	args    []string
	options map[string]string
}

func parseCommand(line string) command {
	words := strings.Fields(line)
	c := command{name: words[0], options: map[string]string{}}
	for _, w := range words[1:] {
		k, v, _ := strings.Cut(w, "=")
		if strings.Contains(w, "=") || w == "fair" || w == "charge" {
			c.options[k] = v
		} else {
			c.args = append(c.args, w)
		}
	}
	return c
}

func (c command) has(name string) bool { _, ok := c.options[name]; return ok }

func (c command) option(name, missing string) string {
	if v, ok := c.options[name]; ok {
		return v
	}
	return missing
}

// settings are the commands that carry out no operation, and so print nothing.
var settings = map[string]func(*transcript, command){
	"pool": func(tr *transcript, c command) {
		tr.limit, tr.queue, tr.fair = tr.number(c.option("limit", "0")), tr.number(c.option("queue", "0")), c.has("fair")
		tr.start = tr.now
		for range tr.number(c.option("workers", "1")) {
			tr.add()
		}
	},
	"at":           func(tr *transcript, c command) { tr.now = tr.start + tr.duration(c.args[0]) },
	"weight":       func(tr *transcript, c command) { tr.weights[tenantID(c.args[0])] = uint32(tr.number(c.args[1])) },
	"generation":   func(tr *transcript, c command) { tr.gen = uint32(tr.number(c.args[0])) },
	"declare-dead": func(tr *transcript, c command) { tr.worker(c.args[0]).alive = false },
	"revive": func(tr *transcript, c command) { // its beat was refused: a new incarnation in the same seat
		w := tr.worker(c.args[0])
		tr.claims++
		w.Epoch, w.alive = tr.claims<<32, true
	},
	"lose-release": func(tr *transcript, c command) { // the stream has ended, but the release found no free swap
		w, i := tr.running(c.args[0])
		w.running = slices.Delete(w.running, i, i+1)
	},
	"lose-cancel": func(tr *transcript, c command) {
		w, i := tr.waiting(c.args[0])
		w.waiting = slices.Delete(w.waiting, i, i+1)
	},
}

// operations are the commands that carry one out. They return what to print of it, "" for nothing.
var operations = map[string]func(*transcript, command) string{
	"acquire": (*transcript).acquireCommand,
	"release": func(tr *transcript, c command) string {
		w, i := tr.running(c.args[0])
		hold := admission.Duration(tr.duration(c.option("hold", "0s")))
		tr.release(w, i, hold, c.has("charge"), tr.number(c.option("min_active", "0")))
		return ""
	},
	"cancel": func(tr *transcript, c command) string {
		tr.cancel(tr.waiting(c.args[0]))
		return verdictNames[tr.last.Verdict]
	},
	"look": func(tr *transcript, c command) string {
		w, i := tr.waiting(c.args[0])
		before := len(w.running)
		if tr.look(w, i); len(w.running) > before {
			return "granted"
		}
		return "not granted"
	},
	"expire": func(tr *transcript, c command) string {
		tr.expire(tr.worker(c.args[0]))
		line := fmt.Sprintf("expired %v", tr.last.Expired)
		if len(tr.last.Expired) > 0 {
			line += fmt.Sprintf(", retry after %d s", tr.last.RetryAfter)
		}
		return line
	},
	"reconcile": func(tr *transcript, c command) string {
		tr.reconcile(tr.worker(c.args[0]))
		return fmt.Sprintf("unseen %v", tr.last.Unseen)
	},
	"maintain": func(tr *transcript, _ command) string { tr.maintain(nil, false); return "" },
	"limit": func(tr *transcript, c command) string {
		tr.limit = tr.number(c.args[0])
		tr.maintain(nil, true)
		return ""
	},
	"retire": func(tr *transcript, _ command) string {
		return verdictNames[tr.do(admission.Retire(tr.now, tr.gen)).Verdict]
	},
}

// run carries out one command and returns what to print.
func (tr *transcript) run(c command) (printed []string) {
	if set := settings[c.name]; set != nil {
		set(tr, c)
		return nil
	}
	operate := operations[c.name]
	if operate == nil {
		tr.t.Fatalf("no command %q", c.name)
	}
	tr.last = admission.Effect{}
	if line := operate(tr, c); line != "" {
		printed = append(printed, line)
	}
	for _, g := range tr.last.Grants {
		printed = append(printed, fmt.Sprintf("tell w%d: %d granted", g.Seat, g.Seq))
	}
	if tr.last.Reaped > 0 {
		printed = append(printed, fmt.Sprintf("reaped %d", tr.last.Reaped))
	}
	return append(printed, tr.show())
}

func (tr *transcript) acquireCommand(c command) string {
	w := tr.worker(c.args[0])
	budget := admission.Duration(tr.duration(c.option("budget", "5s")))
	verdict := tr.arrive(w, tenantID(c.option("tenant", "a")), budget)
	line := fmt.Sprintf("%s/%d %s", c.args[0], w.seq, verdictNames[verdict])
	if verdict == admission.VerdictFull || verdict == admission.VerdictClosed {
		line += fmt.Sprintf(", retry after %d s", tr.last.RetryAfter)
	}
	return line
}

func (tr *transcript) number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		tr.t.Fatal(err)
	}
	return n
}

func (tr *transcript) duration(s string) int64 {
	d, err := time.ParseDuration(s)
	if err != nil {
		tr.t.Fatal(err)
	}
	return int64(d)
}

func tenantID(name string) uint64 { return uint64(name[0]-'a') + 1 }

func (tr *transcript) worker(name string) *rigWorker {
	return tr.workers[tr.number(strings.TrimPrefix(name, "w"))]
}

// running finds w0/3 among a worker's streams that run.
func (tr *transcript) running(name string) (*rigWorker, int) {
	w, seq := tr.stream(name)
	return w, tr.find(name, w.running, seq)
}

// waiting finds w0/3 among a worker's streams that wait.
func (tr *transcript) waiting(name string) (*rigWorker, int) {
	w, seq := tr.stream(name)
	return w, tr.find(name, w.waiting, seq)
}

func (tr *transcript) stream(name string) (*rigWorker, uint32) {
	worker, seq, _ := strings.Cut(name, "/")
	return tr.worker(worker), uint32(tr.number(seq))
}

func (tr *transcript) find(name string, streams []rigStream, seq uint32) int {
	i := slices.IndexFunc(streams, func(s rigStream) bool { return s.seq == seq })
	if i < 0 {
		tr.t.Fatalf("no such stream: %s", name)
	}
	return i
}

// show prints the record.
func (tr *transcript) show() string {
	var r admission.Record
	if err := r.Decode(tr.state); err != nil {
		return "no record"
	}
	s := fmt.Sprintf("inflight %d of %d", r.Inflight(), r.Limit)
	if r.Retired {
		s += " retired"
	}
	for _, h := range r.Holds {
		s += fmt.Sprintf(", %d on hold until %v", h.Count, time.Duration(h.Until-tr.start))
		if h.Tenant != admission.NoTenant {
			s += " by " + tr.tenantName(&r, h.Tenant)
		}
	}
	for _, h := range r.Holders {
		s += fmt.Sprintf(", w%d runs %d", h.Seat, h.Inflight)
		if tr.fair {
			s += " of " + tr.tenantName(&r, h.Tenant)
		}
	}
	if r.Queue.Len() > 0 {
		s += ", queue"
	}
	for i := range r.Queue.Len() {
		t := r.Queue.At(i)
		s += fmt.Sprintf(" w%d/%d", t.Seat, t.Seq)
		if tr.fair {
			s += "(" + tr.tenantName(&r, t.Tenant) + ")"
		}
	}
	return s
}

func (tr *transcript) tenantName(r *admission.Record, i uint16) string {
	return string(rune('a' + r.Tenants[i].ID - 1))
}
