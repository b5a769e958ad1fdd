package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	var o options
	flag.IntVar(&o.n, "n", 150, "how many mutants to make; those that don't build are replaced by others")
	flag.Uint64Var(&o.seed, "seed", 1, "what decides which changes are made")
	flag.StringVar(&o.files, "files", "", "change only files that match, such as filter/records/*.go")
	flag.DurationVar(&o.timeout, "timeout", 5*time.Minute, "how long each command of a trial may take")
	flag.BoolVar(&o.resume, "resume", false, "go on with the last run: what it has tried is not tried again")
	flag.BoolVar(&o.slow, "slow", false, "try the slow tests, too, on what the quick ones let pass")
	flag.StringVar(&o.work, "work", ".tools/mutants", "where the copy of the tree and the log are kept")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "mutants: it takes flags only, not %q\n", flag.Arg(0))
		os.Exit(2)
	}
	if err := run(o, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "mutants: %v\n", err)
		os.Exit(1)
	}
}

type options struct {
	n           int
	seed        uint64
	files, work string
	timeout     time.Duration
	slow        bool
	resume      bool
}

// run makes the changes and prints what became of each, and the report. An interrupt ends it after the change in hand.
func run(o options, w io.Writer) error {
	sources, err := readSources(".", o.files, o.seed)
	if err != nil {
		return err
	}
	work, err := filepath.Abs(o.work)
	if err != nil {
		return err
	}
	t, err := copyTree(".", filepath.Join(work, "tree"))
	if err != nil {
		return err
	}
	s := session{tree: t, timeout: o.timeout, slow: o.slow, out: w}
	if !o.resume {
		if err := s.checkUnchanged(sources); err != nil {
			return err
		}
	}
	name := filepath.Join(work, "log.jsonl")
	if s.known, err = readLog(name, o.resume); err != nil {
		return err
	}
	log, err := openLog(name, o.resume)
	if err != nil {
		return err
	}
	defer log.Close()
	s.log = json.NewEncoder(log)
	interrupt := make(chan os.Signal, 1)
	signal.Notify(interrupt, os.Interrupt, syscall.SIGTERM)
	if err := s.tryAll(plan(sources, o.n), interrupt); err != nil {
		return err
	}
	return report(w, s.results)
}
