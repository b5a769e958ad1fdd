package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"time"
)

// A session is one run.
type session struct {
	tree    tree
	timeout time.Duration
	slow    bool
	out     io.Writer
	log     *json.Encoder
	known   map[string]result // of an earlier run, by sum
	results []result          // of the mutants that count
}

// checkUnchanged runs the tests without a change: if they fail then, they say nothing about one.
func (s *session) checkUnchanged(sources []*source) error {
	done := map[string]bool{}
	for _, source := range sources {
		if dir := path.Dir(source.file); !done[dir] {
			done[dir] = true
			f, by, err := s.tree.try(steps(source.file, s.timeout, s.slow), s.timeout)
			if err != nil {
				return err
			}
			if f != fateSurvived {
				return fmt.Errorf("the tests for %s fail without a change: %s %s", dir, f, by)
			}
		}
	}
	return nil
}

// tryAll gives each file its turns, until it is interrupted.
func (s *session) tryAll(turns []*source, interrupt <-chan os.Signal) error {
	for _, source := range turns {
		select {
		case <-interrupt:
			return nil
		default:
		}
		if err := s.tryNext(source); err != nil {
			return err
		}
	}
	return nil
}

// tryNext makes the file's next change that builds. A file may run out of changes: then it has no more turns.
func (s *session) tryNext(source *source) error {
	for len(source.changes) > 0 {
		c := source.changes[0]
		source.changes = source.changes[1:]
		r, err := s.tryChange(c, source.text)
		if err != nil {
			return err
		}
		if r.Fate != fateNoBuild {
			s.results = append(s.results, r)
			fmt.Fprintf(s.out, "%d %s %s:%d %s (%s)\n", len(s.results), r.Fate, r.File, r.Line, r.What, r.By)
			return nil
		}
	}
	return nil
}

// tryChange tries a change, or looks up what became of it in the run that is resumed.
func (s *session) tryChange(c change, text []byte) (result, error) {
	r := unknown(c, text)
	if known, ok := s.known[r.Sum]; ok {
		return known, nil
	}
	err := s.tree.with(c, text, func() (err error) {
		r.Fate, r.By, err = s.tree.try(steps(c.File, s.timeout, s.slow), s.timeout)
		return err
	})
	if err != nil {
		return r, err
	}
	return r, s.log.Encode(r)
}

// unknown is the result of a change that is not tried yet.
func unknown(c change, text []byte) result {
	sum := sha256.Sum256(c.apply(text))
	return result{File: c.File, Line: c.Line, What: c.What, Sum: c.File + " " + hex.EncodeToString(sum[:8])}
}
