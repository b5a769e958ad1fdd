package screentest

import (
	"fmt"
	"image/color"
	"slices"
	"strconv"
	"strings"

	uv "github.com/charmbracelet/ultraviolet"
)

// Colours are those of a terminal where the program has chosen none, and of the frame around its picture.
type Colours struct{ Background, Text, Frame string }

// Light and Dark are terminals of these kinds.
var (
	Light = Colours{"#ffffff", "#1f2328", "#d0d7de"}
	Dark  = Colours{"#0d1117", "#e6edf3", "#30363d"}
)

// The size of a cell, and what is around the screen.
const (
	cellWidth  = 8.4
	cellHeight = 19
	fontSize   = 14
	margin     = 14
)

// SVG is a picture of the screen: vectors and text, without anything from elsewhere. The same screen gives the same
// bytes.
func (t *Terminal) SVG(title string) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.colours
	columns, rows := t.screen.Width(), t.screen.Height()
	width, height := float64(columns)*cellWidth+2*margin, rows*cellHeight+2*margin
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%s" height="%d" viewBox="0 0 %s %d" role="img">`+"\n",
		number(width), height, number(width), height)
	fmt.Fprintf(&b, "<title>%s</title>\n", escape(title))
	fmt.Fprintf(&b, `<rect x="0.5" y="0.5" width="%s" height="%d" rx="8" fill="%s" stroke="%s"/>`+"\n",
		number(width-1), height-1, c.Background, c.Frame)
	fmt.Fprintf(&b, `<g font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace" `+
		`font-size="%d" fill="%s">`+"\n", fontSize, c.Text)
	for y := range rows {
		t.drawRow(&b, c, y)
	}
	b.WriteString("</g>\n</svg>\n")
	return []byte(b.String())
}

// A run is neighbouring cells of which something is the same.
type run struct{ from, cells int }

func (r run) left() string  { return number(margin + float64(r.from)*cellWidth) }
func (r run) width() string { return number(float64(r.cells) * cellWidth) }

// A look is how a cell looks, with what the program left open filled in.
type look struct{ text, ground, more string }

// drawRow draws the grounds of a row, and then its words, each with its exact length: a reader's font may have another
// width.
func (t *Terminal) drawRow(b *strings.Builder, c Colours, y int) {
	width := t.screen.Width()
	cells, looks := make([]*uv.Cell, width), make([]look, width)
	for x := range width {
		cells[x] = t.screen.CellAt(x, y)
		looks[x] = c.of(cells[x])
	}
	for x := 0; x < width; {
		r := run{x, 0}
		for ; x < width && looks[x].ground == looks[r.from].ground; x++ {
			r.cells++
		}
		if ground := looks[r.from].ground; ground != "" {
			fmt.Fprintf(b, `<rect x="%s" y="%d" width="%s" height="%d" fill="%s"/>`+"\n", r.left(), margin+y*cellHeight+1,
				r.width(), cellHeight-2, ground)
		}
	}
	for x := 0; x < width; {
		r, text := run{x, 0}, ""
		for x < width && !isBlank(cells[x]) && looks[x] == looks[r.from] && blockOf(cells[x]) == blockOf(cells[r.from]) {
			text += cells[x].Content
			step := max(1, cells[x].Width)
			r.cells, x = r.cells+step, x+step
		}
		if r.cells == 0 {
			x++
			continue
		}
		if kind := blockOf(cells[r.from]); kind != blockNone {
			r.drawBlocks(b, y, text, looks[r.from], kind)
		} else {
			r.drawText(b, y, text, looks[r.from])
		}
	}
}

// of is how a cell looks.
func (c Colours) of(cell *uv.Cell) look {
	if cell == nil {
		return look{text: c.Text}
	}
	l := look{text: hex(cell.Style.Fg, c.Text), ground: hex(cell.Style.Bg, "")}
	if cell.Style.Attrs&uv.AttrReverse != 0 {
		l.text, l.ground = hex(cell.Style.Bg, c.Background), hex(cell.Style.Fg, c.Text)
	}
	if isBlank(cell) {
		l.text = ""
		return l
	}
	if l.text != c.Text {
		l.more += fmt.Sprintf(` fill="%s"`, l.text)
	}
	if cell.Style.Attrs&uv.AttrBold != 0 {
		l.more += ` font-weight="600"`
	}
	if cell.Style.Attrs&uv.AttrFaint != 0 {
		l.more += ` opacity="0.6"`
	}
	return l
}

func isBlank(cell *uv.Cell) bool { return cell == nil || strings.TrimSpace(cell.Content) == "" }

// LooksOf is in how many ways the characters look in the first line that has this text: by colours, bold and faint.
func (t *Terminal) LooksOf(text string) int {
	y := slices.IndexFunc(strings.Split(t.Text(), "\n"), func(line string) bool { return strings.Contains(line, text) })
	t.mu.Lock()
	defer t.mu.Unlock()
	looks := map[look]bool{}
	for x := 0; y >= 0 && x < t.screen.Width(); x++ {
		if cell := t.screen.CellAt(x, y); !isBlank(cell) {
			looks[t.colours.of(cell)] = true
		}
	}
	return len(looks)
}

// A block is a kind of cells that are drawn as shapes: fonts leave gaps between these.
type block int

const (
	blockNone   block = iota
	blockFilled       // from below, in eighths
	blockShaded
)

func blockOf(cell *uv.Cell) block {
	switch {
	case cell == nil:
		return blockNone
	case cell.Content == "▒":
		return blockShaded
	case cell.Content >= "▁" && cell.Content <= "█":
		return blockFilled
	}
	return blockNone
}

func (r run) drawText(b *strings.Builder, y int, text string, l look) {
	fmt.Fprintf(b, `<text x="%s" y="%d" textLength="%s" lengthAdjust="spacingAndGlyphs"%s>%s</text>`+"\n", r.left(),
		margin+y*cellHeight+fontSize, r.width(), l.more, escape(text))
}

// drawBlocks draws blocks of one kind as one shape.
func (r run) drawBlocks(b *strings.Builder, y int, text string, l look, kind block) {
	if kind == blockShaded {
		l.more += ` fill-opacity="0.45"`
	}
	path, x := "", margin+float64(r.from)*cellWidth
	for _, one := range text {
		eighths := float64(one-'▁') + 1
		if kind == blockShaded {
			eighths = 8
		}
		height := eighths / 8 * (cellHeight - 2)
		path += fmt.Sprintf("M%s %sh%sv%sh-%sz", number(x), number(float64(margin+(y+1)*cellHeight-1)-height),
			number(cellWidth), number(height), number(cellWidth))
		x += cellWidth
	}
	fmt.Fprintf(b, `<path d="%s" shape-rendering="crispEdges"%s/>`+"\n", path, l.more)
}

func number(n float64) string { return strconv.FormatFloat(n, 'f', -1, 32) }

// hex is a colour as SVG writes it, or none where the program has chosen none.
func hex(c color.Color, none string) string {
	if c == nil {
		return none
	}
	r, g, b, _ := c.RGBA()
	return fmt.Sprintf("#%02x%02x%02x", r>>8, g>>8, b>>8)
}

var escaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "\"", "&quot;")

func escape(text string) string { return escaper.Replace(text) }
