package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
)

// A result is one change's, as the log has it.
type result struct {
	File string `json:"file"`
	Line int    `json:"line"`
	What string `json:"what"`
	Sum  string `json:"sum"` // of the changed file
	Fate fate   `json:"fate"`
	By   string `json:"by,omitempty"` // the test that caught it, or the build's error
}

// readLog returns the results of the run to resume by the sum of the changed file; none if there is no log.
func readLog(name string, resume bool) (map[string]result, error) {
	known := map[string]result{}
	if !resume {
		return known, nil
	}
	f, err := os.Open(name)
	if os.IsNotExist(err) {
		return known, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var r result
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		known[r.Sum] = r
	}
	return known, nil
}

// openLog opens the log to append to it, or starts it anew.
func openLog(name string, resume bool) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return nil, err
	}
	flags := os.O_CREATE | os.O_WRONLY | os.O_APPEND
	if !resume {
		flags |= os.O_TRUNC
	}
	return os.OpenFile(name, flags, 0o644)
}

// report prints the survivors, those that a slow test alone noticed, and the sums.
func report(w io.Writer, results []result) error {
	sums := map[fate]int{}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, r := range results {
		sums[r.Fate]++
		if r.Fate == fateSurvived || r.Fate == fateSlow {
			fmt.Fprintf(table, "%s:%d\t%s\t%s %s\n", r.File, r.Line, r.What, r.Fate, r.By)
		}
	}
	survived := sums[fateSurvived]
	fmt.Fprintf(table, "%d mutants, %d caught, %d survived\n", len(results), len(results)-survived, survived)
	return table.Flush()
}
