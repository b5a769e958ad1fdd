package report

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Pictures have a white ground of their own, so that they look the same on a light and on a dark page. Their axis of
// figures begins at 0, and each figure has a line from the least to the greatest value that was measured.

// palette is readable by those who don't tell red from green (Okabe and Ito).
var palette = []color.Color{
	color.RGBA{0x00, 0x72, 0xb2, 0xff}, color.RGBA{0xd5, 0x5e, 0x00, 0xff},
	color.RGBA{0x00, 0x9e, 0x73, 0xff}, color.RGBA{0xcc, 0x79, 0xa7, 0xff},
}

// ours is the colour of what Headgate did, theirs of what stands beside it.
var ours, theirs = palette[0], color.RGBA{0x99, 0x99, 0x99, 0xff}

// A Bar is one bar.
type Bar struct {
	Name string
	Ours bool
	Spread
}

// Bars draws bars from the left to the right, the first at the top.
func Bars(title, unit string, bars []Bar) ([]byte, error) {
	p := newPlot(title)
	p.X.Label.Text = unit
	p.X.Min, p.X.Max = 0, 1e-9
	p.Add(verticalGrid())
	names := make([]string, len(bars))
	for i, b := range bars {
		place := float64(len(bars) - 1 - i)
		names[len(bars)-1-i] = b.Name
		bar, err := plotter.NewBarChart(plotter.Values{b.Median}, vg.Points(16))
		if err != nil {
			return nil, err
		}
		bar.Horizontal, bar.XMin, bar.LineStyle.Width, bar.Color = true, place, 0, theirs
		if b.Ours {
			bar.Color = ours
		}
		p.Add(bar, spreadLine{b.Spread, place, true})
		p.X.Min, p.X.Max = min(p.X.Min, b.From), max(p.X.Max, b.To*1.05)
	}
	p.NominalY(names...)
	p.Y.Padding = vg.Points(26) // room for a font that is wider than the one that was reckoned with
	return encode(p, vg.Points(float64(70+28*len(bars))))
}

// A Line is figures over a number.
type Line struct {
	Name   string
	X      []float64
	Y      []Spread
	Dashed bool
}

// Lines draws lines. If the axis of numbers is logarithmic, it has marks at the numbers that were measured. The first
// line has the least and the greatest of them.
func Lines(title, x, y string, logarithmic bool, lines []Line) ([]byte, error) {
	p := newPlot(title)
	p.X.Label.Text, p.Y.Label.Text = x, y
	p.Y.Min, p.Y.Max = 0, 1e-9
	first, last := lines[0].X[0], lines[0].X[len(lines[0].X)-1]
	p.X.Min, p.X.Max = 0, last*1.05
	if logarithmic {
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, marks(lines[0].X)
		p.X.Min, p.X.Max = first/1.2, last*1.2
	}
	p.Add(plotter.NewGrid())
	for i, l := range lines {
		if err := addLine(p, l, palette[i%len(palette)]); err != nil {
			return nil, err
		}
	}
	p.Legend.Top, p.Legend.Left = true, true
	return encode(p, vg.Points(300))
}

func addLine(p *plot.Plot, l Line, c color.Color) error {
	points := make(plotter.XYs, len(l.X))
	for i := range l.X {
		points[i] = plotter.XY{X: l.X[i], Y: l.Y[i].Median}
		p.Add(spreadLine{l.Y[i], l.X[i], false})
		p.Y.Max = max(p.Y.Max, l.Y[i].To*1.3) // room for the legend
	}
	line, dots, err := plotter.NewLinePoints(points)
	if err != nil {
		return err
	}
	line.Color, line.Width, dots.Color, dots.Shape = c, vg.Points(2), c, draw.CircleGlyph{}
	if l.Dashed {
		line.Dashes = []vg.Length{vg.Points(6), vg.Points(3)}
	}
	p.Add(line, dots)
	p.Legend.Add(l.Name, line, dots)
	return nil
}

func newPlot(title string) *plot.Plot {
	plot.DefaultFont.Variant = "Sans"
	p := plot.New()
	p.Title.Text = title
	p.Title.Padding, p.Title.TextStyle.Font.Size = vg.Points(8), vg.Points(13)
	p.BackgroundColor = color.White
	p.X.Tick.Marker, p.Y.Tick.Marker = plain{}, plain{}
	p.X.Padding, p.Y.Padding = 0, vg.Points(4)
	p.Legend.Padding, p.Legend.YOffs, p.Legend.XOffs = vg.Points(3), vg.Points(-4), vg.Points(8)
	return p
}

func verticalGrid() *plotter.Grid {
	g := plotter.NewGrid()
	g.Horizontal.Width = 0
	return g
}

// marks are the numbers that were measured.
type marks []float64

// Ticks implements plot.Ticker.
func (m marks) Ticks(_, _ float64) []plot.Tick {
	ticks := make([]plot.Tick, len(m))
	for i, x := range m {
		ticks[i] = plot.Tick{Value: x, Label: strconv.FormatFloat(x, 'f', -1, 64)}
	}
	return ticks
}

// plain are the usual marks, without zeros behind the point.
type plain struct{ plot.DefaultTicks }

// Ticks implements plot.Ticker.
func (p plain) Ticks(least, most float64) []plot.Tick {
	ticks := p.DefaultTicks.Ticks(least, most)
	for i := range ticks {
		if ticks[i].Label != "" {
			ticks[i].Label = strconv.FormatFloat(ticks[i].Value, 'g', 6, 64)
		}
	}
	return ticks
}

// A spreadLine is a thin line from the least to the greatest value.
type spreadLine struct {
	Spread
	place float64
	along bool // the axis of figures is the horizontal one
}

// Plot implements plot.Plotter.
func (s spreadLine) Plot(c draw.Canvas, p *plot.Plot) {
	if s.From == s.To || math.IsNaN(s.From) {
		return
	}
	x, y := p.Transforms(&c)
	style := draw.LineStyle{Color: color.Black, Width: vg.Points(1)}
	end := vg.Points(3)
	if s.along {
		from, to, at := x(s.From), x(s.To), y(s.place)
		c.StrokeLine2(style, from, at, to, at)
		c.StrokeLine2(style, from, at-end, from, at+end)
		c.StrokeLine2(style, to, at-end, to, at+end)
		return
	}
	from, to, at := y(s.From), y(s.To), x(s.place)
	c.StrokeLine2(style, at, from, at, to)
	c.StrokeLine2(style, at-end, from, at+end, from)
	c.StrokeLine2(style, at-end, to, at+end, to)
}

// DataRange implements plot.DataRanger, so that the line fits into the picture.
func (s spreadLine) DataRange() (xmin, xmax, ymin, ymax float64) {
	if s.along {
		return s.From, s.To, s.place, s.place
	}
	return s.place, s.place, s.From, s.To
}

func encode(p *plot.Plot, height vg.Length) ([]byte, error) {
	const width = 7 * vg.Inch
	canvas := vgsvg.New(width, height)
	p.Draw(draw.New(canvas))
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return nil, fmt.Errorf("draw %s: %w", p.Title.Text, err)
	}
	return bytes.ReplaceAll(b.Bytes(), []byte("font-family:Liberation Sans"),
		[]byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif")), nil
}
