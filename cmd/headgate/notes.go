package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
)

// notes writes the lines that a running command has for people. What stands in a line is shown escaped and cut: a part
// of it can come from files and from other machines. Lines that come fast are left out and counted.
type notes struct {
	w       io.Writer
	now     func() time.Time
	mu      sync.Mutex
	budget  float64 // how many lines may be written at once
	filled  time.Time
	leftOut int
}

const (
	noteLength = 1000        // the most characters of a line
	noteBurst  = 20          // so many lines may come at once
	noteEvery  = time.Second // and then one in this time
)

func newNotes(w io.Writer) *notes {
	return &notes{w: w, now: time.Now, budget: noteBurst, filled: time.Now()}
}

// say writes a line.
func (n *notes) say(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.now()
	n.budget = min(noteBurst, n.budget+float64(now.Sub(n.filled))/float64(noteEvery))
	n.filled = now
	if n.budget < 1 {
		n.leftOut++
		return
	}
	n.budget--
	n.sayLeftOut()
	n.line(fmt.Sprintf(format, args...))
}

// warn writes a line that says what may go wrong, and why.
func (n *notes) warn(format string, args ...any) { n.say("warning: "+format, args...) }

// end writes how many lines were left out, if any.
func (n *notes) end() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sayLeftOut()
}

func (n *notes) sayLeftOut() {
	if n.leftOut > 0 {
		n.line(strconv.Itoa(n.leftOut) + " more lines are left out here")
		n.leftOut = 0
	}
}

func (n *notes) line(text string) { fmt.Fprintf(n.w, "headgate: %s\n", shown(text)) }

// shown is a text as it can be shown on a terminal: on one line, without control characters, and not too long.
func shown(text string) string {
	var line strings.Builder
	length := 0
	for _, r := range strings.TrimRight(text, "\n") {
		if length == noteLength {
			return line.String() + "..."
		}
		length++
		if unicode.IsPrint(r) {
			line.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRune(r)
		line.WriteString(quoted[1 : len(quoted)-1])
	}
	return line.String()
}
