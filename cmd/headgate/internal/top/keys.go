package top

import (
	"unicode"

	tea "charm.land/bubbletea/v2"
)

// pressed does what a key asks for.
func (m *model) pressed(key tea.KeyPressMsg) tea.Cmd {
	switch name := key.String(); {
	case name == "ctrl+c":
		return m.end()
	case name == "ctrl+z":
		return tea.Suspend
	case m.ask.kind != questionNone:
		return m.answer(key)
	case m.page == pageHelp || m.page == pageLines:
		m.page = pageTable
		return nil
	default:
		return m.command(name)
	}
}

// command does what a key means where no question is open.
func (m *model) command(name string) tea.Cmd {
	if m.move(name) {
		return nil
	}
	switch name {
	case "q":
		return m.leave()
	case "esc", "left", "h", "backspace":
		m.back()
	case "enter", "right":
		if r, ok := m.chosen(); ok && m.page == pageTable {
			m.selected, m.page, m.scrolls, m.focus = r.place(), pageKey, [2]int{}, 1
		}
	case "tab", "shift+tab":
		m.focus = 1 - m.focus
	case "/":
		m.page = pageTable
		m.ask = question{kind: questionFilter, line: []rune(m.filter)}
	case "s":
		m.by, m.backwards = (m.by+1)%len(orders), false
		m.arrange()
	case "S":
		m.backwards = !m.backwards
		m.arrange()
	case "?":
		m.page = pageHelp
	case "g":
		if m.options.Own != nil {
			m.page = pageLines
		}
	case "l", "=":
		m.askLimit("", false)
	case "L":
		m.askLimit("", true)
	case "u":
		m.askBack(false)
	case "U":
		m.askBack(true)
	default:
		if len(name) == 1 && unicode.IsDigit(rune(name[0])) {
			m.askLimit(name, false)
		}
	}
	return nil
}

// move moves the chosen row, or the list of the page, and reports whether the key asks for that.
func (m *model) move(name string) bool {
	steps := map[string]int{"up": -1, "k": -1, "down": 1, "j": 1, "pgup": -m.screenful(), "pgdown": m.screenful(),
		"ctrl+b": -m.screenful(), "ctrl+f": m.screenful(), "home": -everything, "end": everything, "G": everything}
	step, moves := steps[name]
	if moves {
		m.moveBy(step)
	}
	return moves
}

// everything is more lines than any list has.
const everything = 1 << 30

func (m *model) screenful() int { return max(1, m.height/2) }

func (m *model) moveBy(step int) {
	if m.page == pageKey {
		m.scrolls[m.focus] = max(0, m.scrolls[m.focus]+step) // what is drawn bounds it from above
		return
	}
	m.choose(m.at + step)
}

// back leaves a key's page, or else takes the filter away.
func (m *model) back() {
	if m.page == pageKey {
		m.page = pageTable
		m.arrange()
		return
	}
	m.filter = ""
	m.arrange()
}

// leave ends the screen. Over a gateway of this process it asks before.
func (m *model) leave() tea.Cmd {
	if m.options.Own == nil {
		return tea.Quit
	}
	m.ask = question{kind: questionEnd}
	return nil
}

// end ends the screen at once. A gateway of this process is asked to end; the screen stays until it has ended.
func (m *model) end() tea.Cmd {
	if m.options.Own == nil {
		return tea.Quit
	}
	m.ask = question{}
	m.options.Own.End()
	m.say("ending the gateway: requests that run may finish (Ctrl-C: end them, too)", true)
	return nil
}
