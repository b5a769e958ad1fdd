package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
)

// notes writes the lines that a running command has for people. What stands in a line is shown escaped and cut, since a
// part of it can come from files and from other machines. Lines that come fast are left out and counted.
type notes struct {
	w       io.Writer
	now     func() time.Time
	isLive  bool // w is a terminal: what goes on stands in its last line, and goes when it is over
	mu      sync.Mutex
	live    string  // what stands in the last line
	budget  float64 // how many lines may be written at once
	filled  time.Time
	leftOut int
}

const (
	noteLength = 1000        // the most characters of a line
	liveLength = 70          // the most of a live line: one that the terminal breaks can't be taken back
	noteBurst  = 20          // so many lines may come at once
	noteEvery  = time.Second // and then one in this time
)

func newNotes(w io.Writer) *notes {
	return &notes{w: w, now: time.Now, isLive: isTerminal(w), budget: noteBurst, filled: time.Now()}
}

// isTerminal reports whether w is a terminal that can take back a line.
func isTerminal(w io.Writer) bool {
	file, isFile := w.(*os.File)
	if !isFile || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
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

// begin says that something begins that takes time. On a terminal that stands in the last line, with the seconds, until
// done is called.
func (n *notes) begin(what string) (done func()) {
	if !n.isLive {
		n.say("%s", what)
		return func() {}
	}
	began := n.now()
	show := func() {
		seconds := int(n.now().Sub(began) / time.Second)
		n.setLive(fmt.Sprintf("%s (%d s)", cut(shown(what), liveLength), seconds))
	}
	show()
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-over:
				return
			case <-ticker.C:
				show()
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(over)
		<-ended
		n.setLive("")
	})
}

// setLive replaces what stands in the last line of the terminal.
func (n *notes) setLive(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.live = text
	fmt.Fprint(n.w, clearLine)
	n.showLive()
}

// clearLine takes the cursor to the beginning of the line, and what stands in the line away.
const clearLine = "\r\x1b[K"

func (n *notes) showLive() {
	if n.live != "" {
		fmt.Fprintf(n.w, "headgate: %s", n.live)
	}
}

// moveTo has what is said go to another place, until back is called.
func (n *notes) moveTo(w io.Writer) (back func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	before, wasLive := n.w, n.isLive
	n.w, n.isLive = w, false
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.w, n.isLive = before, wasLive
	}
}

// quote writes a line of another program as it is, but escaped and cut. It leaves none out.
func (n *notes) quote(line string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	fmt.Fprintln(n.w, cut(shown(line), noteLength))
}

// A lineWriter gives whole lines to take.
type lineWriter struct {
	take func(line string)
	rest []byte // the beginning of a line whose end has not come yet
}

func (l *lineWriter) Write(text []byte) (int, error) {
	l.rest = append(l.rest, text...)
	for {
		line, rest, complete := bytes.Cut(l.rest, []byte("\n"))
		if !complete {
			return len(text), nil
		}
		l.rest = rest
		l.take(string(line))
	}
}

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

// line writes a line above what stands in the last line.
func (n *notes) line(text string) {
	before := ""
	if n.isLive { // also where the terminal has shown what was typed
		before = clearLine
	}
	fmt.Fprintf(n.w, "%sheadgate: %s\n", before, cut(shown(text), noteLength))
	n.showLive()
}

// shown is a text as it can be shown on a terminal: on one line, without control characters.
func shown(text string) string {
	var line strings.Builder
	for _, r := range strings.TrimRight(text, "\n") {
		if unicode.IsPrint(r) {
			line.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRune(r)
		line.WriteString(quoted[1 : len(quoted)-1])
	}
	return line.String()
}

// cut is a text of at most so many characters, with three dots where more has stood.
func cut(text string, length int) string {
	runes := []rune(text)
	if len(runes) <= length {
		return text
	}
	return string(runes[:length]) + "..."
}
