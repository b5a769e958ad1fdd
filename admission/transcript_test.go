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
		for _, printed := range tr.run(strings.Fields(line)) {
			fmt.Fprintln(&out, "  "+printed)
		}
	}
	return out.String()
}

type transcript struct {
	*rig
	t     *testing.T
	start int64
}

// run carries out one command and returns what to print.
func (tr *transcript) run(words []string) (printed []string) {
	options, args := map[string]string{}, []string{}
	for _, w := range words[1:] {
		k, v, _ := strings.Cut(w, "=")
		if strings.Contains(w, "=") || w == "fair" || w == "charge" {
			options[k] = v
		} else {
			args = append(args, w)
		}
	}
	tr.last = admission.Effect{}
	switch words[0] {
	case "pool":
		tr.limit, tr.queue = tr.number(options["limit"], 0), tr.number(options["queue"], 0)
		_, tr.fair = options["fair"]
		tr.start = tr.now
		for range tr.number(options["workers"], 1) {
			tr.add()
		}
		return nil
	case "at":
		tr.now = tr.start + tr.duration(args[0])
		return nil
	case "weight":
		tr.weights[tenantID(args[0])] = uint32(tr.number(args[1], 1))
		return nil
	case "acquire":
		w := tr.worker(args[0])
		budget := admission.Duration(tr.duration(option(options, "budget", "5s")))
		verdict := tr.arrive(w, tenantID(option(options, "tenant", "a")), budget)
		line := fmt.Sprintf("%s/%d %s", args[0], w.seq, verdictNames[verdict])
		if verdict == admission.VerdictFull || verdict == admission.VerdictClosed {
			line += fmt.Sprintf(", retry after %d s", tr.last.RetryAfter)
		}
		printed = append(printed, line)
	case "release":
		w, i := tr.stream(args[0], true)
		_, charge := options["charge"]
		tr.release(w, i, admission.Duration(tr.duration(option(options, "hold", "0s"))), charge, tr.number(options["min_active"], 0))
	case "cancel":
		w, i := tr.stream(args[0], false)
		tr.cancel(w, i)
		printed = append(printed, verdictNames[tr.last.Verdict])
	case "look":
		w, i := tr.stream(args[0], false)
		before := len(w.running)
		tr.look(w, i)
		printed = append(printed, map[bool]string{true: "granted", false: "not granted"}[len(w.running) > before])
	case "expire":
		tr.expire(tr.worker(args[0]))
		printed = append(printed, fmt.Sprintf("expired %v", tr.last.Expired))
		if len(tr.last.Expired) > 0 {
			printed[0] += fmt.Sprintf(", retry after %d s", tr.last.RetryAfter)
		}
	case "sync":
		tr.sync(tr.worker(args[0]))
		printed = append(printed, fmt.Sprintf("had been granted %v", tr.last.Unseen))
	case "tend":
		tr.tend(nil, false)
	case "limit":
		tr.limit = tr.number(args[0], 0)
		tr.tend(nil, true)
	case "declare-dead":
		tr.worker(args[0]).alive = false
		return nil
	case "revive": // its beat was refused: a new incarnation in the same slot
		w := tr.worker(args[0])
		tr.claims++
		w.Epoch, w.alive = tr.claims<<32, true
		return nil
	case "lose-release": // the stream has ended, but the release found no free swap
		w, i := tr.stream(args[0], true)
		w.running = slices.Delete(w.running, i, i+1)
		return nil
	case "lose-cancel":
		w, i := tr.stream(args[0], false)
		w.waiting = slices.Delete(w.waiting, i, i+1)
		return nil
	case "retire":
		e := tr.do(tr.op(admission.OpRetire, nil))
		printed = append(printed, verdictNames[e.Verdict])
	case "generation":
		tr.gen = uint32(tr.number(args[0], 0))
		return nil
	default:
		tr.t.Fatalf("no command %q", words[0])
	}
	for _, g := range tr.last.Grants {
		printed = append(printed, fmt.Sprintf("tell w%d: %d granted", g.Seat, g.Seq))
	}
	if tr.last.Reaped > 0 {
		printed = append(printed, fmt.Sprintf("reaped %d", tr.last.Reaped))
	}
	return append(printed, tr.show())
}

func (tr *transcript) number(s string, missing int) int {
	if s == "" {
		return missing
	}
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

func option(options map[string]string, name, missing string) string {
	if v, ok := options[name]; ok {
		return v
	}
	return missing
}

func tenantID(name string) uint64 { return uint64(name[0]-'a') + 1 }

func (tr *transcript) worker(name string) *rigWorker {
	return tr.workers[tr.number(strings.TrimPrefix(name, "w"), 0)]
}

// stream finds w0/3 among a worker's streams.
func (tr *transcript) stream(name string, running bool) (*rigWorker, int) {
	worker, seq, _ := strings.Cut(name, "/")
	w := tr.worker(worker)
	streams := w.waiting
	if running {
		streams = w.running
	}
	i := slices.IndexFunc(streams, func(s rigStream) bool { return s.seq == uint32(tr.number(seq, 0)) })
	if i < 0 {
		tr.t.Fatalf("no such stream: %s", name)
	}
	return w, i
}

// show prints the record.
func (tr *transcript) show() string {
	var r admission.Record
	if err := r.Decode(tr.state); err != nil {
		return "no record"
	}
	s := fmt.Sprintf("used %d of %d", r.Inflight(), r.Limit)
	if r.Retired {
		s += " retired"
	}
	for _, p := range r.Holds {
		s += fmt.Sprintf(", %d held until %v", p.Count, time.Duration(p.Until-tr.start))
		if p.Tenant != admission.NoTenant {
			s += " by " + tr.tenantName(&r, p.Tenant)
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
