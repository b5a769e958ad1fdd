package top

import (
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/charmbracelet/x/ansi"
)

// shown is a text as any terminal can show it, on one line. Control characters, marks of direction and the like are
// escaped as in Go (\x1b, \u202e). So is what follows the first character of a cluster about whose width terminals
// disagree, e.g. a family of emoji: columns would be torn otherwise.
func shown(text string) string {
	if isPlain(text) {
		return text
	}
	var safe strings.Builder
	for _, r := range text {
		if unicode.IsPrint(r) && !unicode.Is(unicode.Variation_Selector, r) {
			safe.WriteRune(r)
		} else {
			safe.WriteString(escaped(r))
		}
	}
	rest := safe.String()
	var line strings.Builder
	turns := false
	for rest != "" {
		cluster, width := ansi.FirstGraphemeCluster(rest, ansi.GraphemeWidth)
		rest = rest[len(cluster):]
		line.WriteString(shownCluster(cluster, width))
		turns = turns || isRightToLeft(cluster)
	}
	if turns {
		line.WriteString(leftToRight)
	}
	return line.String()
}

// leftToRight is a mark that has no width. Behind a name that is written from right to left it keeps what follows in
// its place: terminals that turn the one would turn the figures behind it, too.
const leftToRight = "\u200e"

// mostRunes is how many runes a cluster may have. Letters have a few marks at most in any language.
const mostRunes = 4

// shownCluster is a cluster as it is where all ways to count its width agree. Otherwise its marks are escaped.
func shownCluster(cluster string, width int) string {
	runes := []rune(cluster)
	if width > 0 && len(runes) <= mostRunes && ansi.StringWidthWc(cluster) == width {
		return cluster
	}
	var line strings.Builder
	for i, r := range runes {
		alone := string(r)
		if n := ansi.StringWidth(alone); i == 0 && n > 0 && n == ansi.StringWidthWc(alone) {
			line.WriteRune(r)
		} else {
			line.WriteString(escaped(r))
		}
	}
	return line.String()
}

func isPlain(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

func escaped(r rune) string {
	quoted := strconv.QuoteRuneToASCII(r)
	return quoted[1 : len(quoted)-1]
}

func isRightToLeft(cluster string) bool {
	for _, r := range cluster {
		if unicode.In(r, unicode.Hebrew, unicode.Arabic, unicode.Syriac, unicode.Thaana, unicode.Nko, unicode.Adlam) {
			return true
		}
	}
	return false
}

func widthOf(text string) int { return ansi.StringWidth(text) }

// fitted is a text of exactly so many cells: filled with spaces, or cut in the middle. The ends of names tell more than
// their middles: versions stand there.
func fitted(text string, width int) string {
	text = cutMiddle(text, width)
	return text + strings.Repeat(" ", max(0, width-widthOf(text)))
}

// fittedRight is fitted with the text at the right.
func fittedRight(text string, width int) string {
	text = cutMiddle(text, width)
	return strings.Repeat(" ", max(0, width-widthOf(text))) + text
}

func cutMiddle(text string, width int) string {
	switch {
	case widthOf(text) <= width:
		return text
	case width <= 0:
		return ""
	}
	tail := (width - 1) / 2
	cut := beginOf(text, width-1-tail) + "…" + endOf(text, tail)
	if strings.HasSuffix(text, leftToRight) && !strings.HasSuffix(cut, leftToRight) {
		cut += leftToRight
	}
	return cut
}

// cutEnd is a text of at most so many cells.
func cutEnd(text string, width int) string {
	switch {
	case widthOf(text) <= width:
		return text
	case width <= 0:
		return ""
	}
	return beginOf(text, width-1) + "…"
}

// clustersOf are what a text consists of for a reader: characters with their marks.
func clustersOf(text string) (clusters []string) {
	for text != "" {
		cluster, _ := ansi.FirstGraphemeCluster(text, ansi.GraphemeWidth)
		clusters = append(clusters, cluster)
		text = text[len(cluster):]
	}
	return clusters
}

// within is how many of the clusters fit into so many cells, from the first on.
func within(clusters []string, width int) int {
	for i, cluster := range clusters {
		if width -= widthOf(cluster); width < 0 {
			return i
		}
	}
	return len(clusters)
}

func beginOf(text string, width int) string {
	clusters := clustersOf(text)
	return strings.Join(clusters[:within(clusters, width)], "")
}

func endOf(text string, width int) string {
	clusters := clustersOf(text)
	slices.Reverse(clusters)
	end := clusters[:within(clusters, width)]
	slices.Reverse(end)
	return strings.Join(end, "")
}
