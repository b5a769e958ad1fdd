package screentest

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/term"
	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"
)

// A Terminal is a terminal with a program that runs on it.
type Terminal struct {
	cmd    *exec.Cmd
	master *os.File
	slave  *os.File // kept open, so that the settings can be read once the program has ended
	before *term.State
	ended  chan struct{}

	colours Colours

	mu     sync.Mutex
	screen *vt.Emulator
	sent   bytes.Buffer // all that the program has written
}

// Start runs the command on a new terminal of this size and with these colours, as the leader of its session.
func Start(cmd *exec.Cmd, width, height int, c Colours) (*Terminal, error) {
	master, slave, err := pty.Open()
	if err != nil {
		return nil, err
	}
	t := &Terminal{cmd: cmd, master: master, slave: slave, ended: make(chan struct{}), colours: c,
		screen: vt.NewEmulator(width, height)}
	t.screen.SetDefaultBackgroundColor(ansi.HexColor(c.Background))
	t.screen.SetDefaultForegroundColor(ansi.HexColor(c.Text))
	if err := t.setSize(width, height); err != nil {
		return nil, errors.Join(err, t.close())
	}
	if t.before, err = term.GetState(slave.Fd()); err != nil {
		return nil, errors.Join(err, t.close())
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, t.close())
	}
	go t.read()
	go func() { _, _ = io.Copy(master, t.screen) }() // the emulator's answers
	go func() {
		_ = cmd.Wait()
		close(t.ended)
	}()
	return t, nil
}

func (t *Terminal) close() error { return errors.Join(t.master.Close(), t.slave.Close()) }

// read feeds the emulator with what the program writes.
func (t *Terminal) read() {
	part := make([]byte, 64<<10)
	for {
		n, err := t.master.Read(part)
		if n > 0 {
			t.mu.Lock()
			t.sent.Write(part[:n])
			_, _ = t.screen.Write(part[:n])
			t.mu.Unlock()
		}
		if err != nil {
			return
		}
	}
}

// Close kills the program's session and gives the terminal back.
func (t *Terminal) Close() {
	_ = syscall.Kill(-t.cmd.Process.Pid, syscall.SIGKILL)
	<-t.ended
	_ = t.close()
	if answers, closes := t.screen.InputPipe().(io.Closer); closes { // ends what copies the emulator's answers
		_ = answers.Close()
	}
}

// Type sends keys to the program.
func (t *Terminal) Type(keys string) error {
	_, err := t.master.WriteString(keys)
	return err
}

// Resize changes the terminal's size.
func (t *Terminal) Resize(width, height int) error {
	t.mu.Lock()
	t.screen.Resize(width, height)
	t.mu.Unlock()
	return t.setSize(width, height)
}

func (t *Terminal) setSize(width, height int) error {
	return pty.Setsize(t.master, &pty.Winsize{Rows: uint16(height), Cols: uint16(width)})
}

// Signal sends a signal to the program.
func (t *Terminal) Signal(signal os.Signal) error { return t.cmd.Process.Signal(signal) }

// Ended waits for the program's end and returns its exit status. All that it has written is on the screen then. It
// reports false if the program is still there after the given time.
func (t *Terminal) Ended(within time.Duration) (status int, ended bool) {
	select {
	case <-t.ended:
		t.drain()
		return t.cmd.ProcessState.ExitCode(), true
	case <-time.After(within):
		return 0, false
	}
}

// Text is what the screen shows, without colours: a line for each row, without spaces at its end.
func (t *Terminal) Text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := make([]string, t.screen.Height())
	for y := range lines {
		var line strings.Builder
		for x := 0; x < t.screen.Width(); x++ {
			cell := t.screen.CellAt(x, y)
			switch {
			case cell == nil || cell.Content == "" && cell.Width > 0:
				line.WriteByte(' ')
			case cell.Width > 0:
				line.WriteString(cell.Content)
				x += cell.Width - 1
			}
		}
		lines[y] = strings.TrimRight(line.String(), " ")
	}
	return strings.Join(lines, "\n")
}

// Sent is all that the program has written so far, with its escape sequences.
func (t *Terminal) Sent() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sent.String()
}

// endMark is a sequence that terminals ignore.
const endMark = "\x1b_screentest\x1b\\"

// drain waits until all is read that the program has written.
func (t *Terminal) drain() {
	if _, err := t.slave.WriteString(endMark); err != nil {
		return
	}
	for deadline := time.Now().Add(2 * time.Second); !strings.Contains(t.Sent(), endMark); {
		if time.Now().After(deadline) {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// Restored says what the program, which has ended, has left changed on the terminal, or "".
func (t *Terminal) Restored() string {
	now, err := term.GetState(t.slave.Fd())
	if err != nil {
		return err.Error()
	}
	if *now != *t.before {
		return "the settings of the terminal differ"
	}
	sent := t.Sent()
	for _, mode := range []struct{ name, on, off string }{
		{"the alternate screen", "\x1b[?1049h", "\x1b[?1049l"},
		{"the hidden cursor", "\x1b[?25l", "\x1b[?25h"},
		{"bracketed paste", "\x1b[?2004h", "\x1b[?2004l"},
		{"reports of the mouse", "\x1b[?1002h", "\x1b[?1002l"},
		{"reports of all the mouse's moves", "\x1b[?1003h", "\x1b[?1003l"},
	} {
		if strings.LastIndex(sent, mode.on) > strings.LastIndex(sent, mode.off) {
			return mode.name + " is left on"
		}
	}
	return ""
}
