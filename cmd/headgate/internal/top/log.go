package top

import (
	"bytes"
	"slices"
	"sync"
)

// A Log keeps the last lines of what is written to it. It is the place for what a program says while the screen has the
// terminal.
type Log struct {
	mu    sync.Mutex
	lines []string
	rest  []byte // the beginning of a line whose end has not come yet
	total int
}

// The bounds of what a Log keeps.
const (
	keptLines = 500
	longLine  = 4096
)

// Write keeps the lines of a text.
func (l *Log) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, text...)
	for {
		line, rest, whole := bytes.Cut(l.rest, []byte("\n"))
		if !whole {
			l.rest = l.rest[:min(len(l.rest), longLine)]
			return len(text), nil
		}
		l.rest = rest
		l.lines = append(l.lines, string(line[:min(len(line), longLine)]))
		l.total++
		if excess := len(l.lines) - keptLines; excess > 0 {
			l.lines = slices.Delete(l.lines, 0, excess)
		}
	}
}

// Lines are the lines that are kept, oldest first, and how many there have ever been.
func (l *Log) Lines() (lines []string, total int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines), l.total
}
