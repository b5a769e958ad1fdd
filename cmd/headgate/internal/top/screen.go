package top

import (
	"context"
	"errors"
	"os"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
)

// screen shows the state live until ctx is done or the user ends it. The terminal is as before then.
func screen(ctx context.Context, o Options, gateways []*gateway) error {
	profile := colorprofile.Detect(o.Out, os.Environ())
	if os.Getenv("NO_COLOR") != "" {
		profile = colorprofile.ASCII
	}
	m := newModel(ctx, o, gateways, profile > colorprofile.ASCII)
	program := tea.NewProgram(m, tea.WithInput(o.In), tea.WithOutput(o.Out), tea.WithColorProfile(profile),
		tea.WithoutSignalHandler())
	stop := context.AfterFunc(ctx, program.Quit)
	defer stop()
	_, err := program.Run()
	if errors.Is(err, tea.ErrInterrupted) {
		return nil
	}
	return err
}

// A model is the screen and what it shows.
type model struct {
	ctx      context.Context
	options  Options
	gateways []*gateway
	state    *State    // the sum of those that answer, or the last one when none does
	summed   time.Time // when that was

	width, height int
	theme         theme
	dark          bool
	palette       palette

	rows      []row
	selected  place // the row's that is chosen
	at        int   // where it is among the rows
	scrolled  int   // how many lines of the table are above the screen
	by        int   // the order, of orders
	backwards bool
	filter    string

	page     page
	scrolls  [2]int // of the page about a key: how many lines of each list are above the screen
	focus    int    // which of these lists the keys move
	ask      question
	note     string // what the last change has done, or that it can't be done
	noteGood bool
	noteTill time.Time
	heard    int // how many lines of the log were there when it was looked at last
}

// A page is what fills the screen.
type page int

const (
	pageTable page = iota
	pageKey        // one key: its tenants and its recent requests
	pageHelp
	pageLines // what the gateway in this process says
)

func newModel(ctx context.Context, o Options, gateways []*gateway, colours bool) *model {
	m := &model{ctx: ctx, options: o, gateways: gateways, width: 80, height: 24, dark: true,
		palette: palette{given: map[string]int{}}}
	m.theme = themeOf(colours, true)
	if o.Own != nil {
		_, m.heard = o.Own.Log.Lines()
	}
	return m
}

type (
	askMsg      struct{ gateway int }
	answeredMsg struct {
		gateway int
		answer  answer
		extra   bool // it was asked out of turn
	}
	clockMsg struct{}
)

// Init asks every gateway, and what colour the terminal's background has.
func (m *model) Init() tea.Cmd {
	commands := []tea.Cmd{tea.RequestBackgroundColor, m.tick()}
	for i := range m.gateways {
		commands = append(commands, m.question(i, false))
	}
	return tea.Batch(commands...)
}

// tick has the times move on that count from one refresh to the next.
func (m *model) tick() tea.Cmd {
	return tea.Tick(time.Second, func(time.Time) tea.Msg { return clockMsg{} })
}

func (m *model) question(i int, extra bool) tea.Cmd {
	ctx, client, after := m.ctx, m.gateways[i].client, m.gateways[i].last
	if extra {
		after = -1 // the question in turn asks for the same events
	}
	return func() tea.Msg { return answeredMsg{i, ask(ctx, client, after), extra} }
}

// Update takes what has happened into the model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.BackgroundColorMsg:
		m.dark = msg.IsDark()
		m.theme = themeOf(m.theme.colours, m.dark)
	case askMsg:
		return m, m.question(msg.gateway, false)
	case answeredMsg:
		m.gateways[msg.gateway].take(msg.answer, time.Now())
		m.refresh()
		if !msg.extra {
			return m, tea.Tick(m.options.Interval, func(time.Time) tea.Msg { return askMsg{msg.gateway} })
		}
	case changedMsg:
		return m, m.changed(msg)
	case clockMsg:
		m.hear()
		return m, m.tick()
	case tea.PasteMsg:
		m.ask.paste(msg.Content)
		m.applyFilter()
	case tea.KeyPressMsg:
		return m, m.pressed(msg)
	}
	return m, nil
}

// refresh sums what is known. The last sum stays when no gateway answers any more.
func (m *model) refresh() {
	answering := 0
	for _, g := range m.gateways {
		if g.err == nil && g.state != nil {
			answering++
		}
	}
	if answering > 0 {
		m.state, m.summed = sumOf(m.gateways), time.Now()
		m.palette.refresh(m.theme, m.state)
	}
	m.arrange()
}

// allAway reports whether no gateway answers.
func (m *model) allAway() bool {
	for _, g := range m.gateways {
		if g.err == nil {
			return false
		}
	}
	return true
}

// arrange sorts and filters the rows anew. The chosen row stays chosen wherever it goes, as long as it is there.
func (m *model) arrange() {
	if m.state == nil {
		return
	}
	m.rows = rowsOf(m.state, orders[m.by], m.backwards, m.filter)
	for i, r := range m.rows {
		if r.place() == m.selected {
			m.at = i
			return
		}
	}
	m.choose(m.at)
}

// choose chooses the row at i, or the nearest that there is.
func (m *model) choose(i int) {
	m.at = max(0, min(i, len(m.rows)-1))
	if len(m.rows) > 0 && m.page != pageKey {
		m.selected = m.rows[m.at].place()
	}
}

// chosen is the row that is chosen. On the page of a key it is that key, also where a filter hides it.
func (m *model) chosen() (row, bool) {
	if m.at < len(m.rows) && m.rows[m.at].place() == m.selected {
		return m.rows[m.at], true
	}
	if m.state != nil {
		for _, pool := range m.state.Pools {
			for _, key := range pool.Keys {
				if r := (row{pool, key, why(pool, key)}); r.place() == m.selected {
					return r, true
				}
			}
		}
	}
	return row{}, false
}

// hear shows the newest line that the gateway of this process has said since the screen is there.
func (m *model) hear() {
	if m.options.Own == nil {
		return
	}
	lines, total := m.options.Own.Log.Lines()
	if total > m.heard && len(lines) > 0 {
		m.say(shown(lines[len(lines)-1]), true)
	}
	m.heard = total
}

func (m *model) say(text string, good bool) {
	m.note, m.noteGood, m.noteTill = text, good, time.Now().Add(8*time.Second)
}
