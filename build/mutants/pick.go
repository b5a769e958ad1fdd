package main

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// A source is a file that is changed.
type source struct {
	file    string
	text    []byte
	changes []change // shuffled: those that come first are tried first
}

// shuffle orders a file's changes by the seed and the file's name alone, so that another file's change moves nothing.
func shuffle(file string, changes []change, seed uint64) {
	h := fnv.New64a()
	h.Write([]byte(file))
	r := rand.New(rand.NewPCG(seed, h.Sum64()))
	r.Shuffle(len(changes), func(i, j int) { changes[i], changes[j] = changes[j], changes[i] })
}

// plan is the order in which files have their turn, n turns in all: each by its share of all bytes, evenly mixed. A
// longer plan begins with a shorter one.
func plan(sources []*source, n int) []*source {
	total := 0
	for _, s := range sources {
		total += len(s.text)
	}
	turns := map[*source]int{}
	var order []*source
	for len(order) < n {
		// The file that lags most behind its share is next.
		next := slices.MaxFunc(sources, func(a, b *source) int {
			lag := func(s *source) int { return (len(order)+1)*len(s.text) - turns[s]*total }
			return lag(a) - lag(b)
		})
		turns[next]++
		order = append(order, next)
	}
	return order
}

// changed are the folders whose files are changed.
var changed = []string{"admission", "filter", "filter/records", "filter/abi"}

// isChanged tells whether a Go file is one of those that are changed: no test, and not the half of the binding that
// only tests outside a module use.
func isChanged(file string) bool {
	return !strings.HasSuffix(file, "_test.go") && filepath.Base(file) != "host_native.go"
}

// readSources reads the files that are changed, and lists the changes of those that match the pattern.
func readSources(root, pattern string, seed uint64) ([]*source, error) {
	texts, err := readTexts(root)
	if err != nil {
		return nil, err
	}
	neighbours, err := findNeighbours(texts)
	if err != nil {
		return nil, err
	}
	var sources []*source
	for _, file := range slices.Sorted(maps.Keys(texts)) {
		matches, err := path.Match(pattern, file)
		if err != nil {
			return nil, fmt.Errorf("-files %q: %w", pattern, err)
		}
		if !matches && pattern != "" {
			continue
		}
		changes, err := findChanges(file, texts[file], neighbours)
		if err != nil {
			return nil, err
		}
		if len(changes) > 0 {
			shuffle(file, changes, seed)
			sources = append(sources, &source{file: file, text: texts[file], changes: changes})
		}
	}
	if len(sources) == 0 {
		return nil, fmt.Errorf("-files %q: no file with code matches", pattern)
	}
	return sources, nil
}

// readTexts reads the files that are changed.
func readTexts(root string) (map[string][]byte, error) {
	texts := map[string][]byte{}
	for _, dir := range changed {
		names, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if !isChanged(name) {
				continue
			}
			if texts[path.Join(dir, filepath.Base(name))], err = os.ReadFile(name); err != nil {
				return nil, err
			}
		}
	}
	return texts, nil
}
