package screentest

import (
	"encoding/xml"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const within = 5 * time.Second

// ran is a terminal on which a shell script has run to its end.
func ran(t *testing.T, script string) *Terminal {
	t.Helper()
	terminal, err := Start(exec.Command("sh", "-c", script), 20, 4, Dark)
	require.NoError(t, err)
	t.Cleanup(terminal.Close)
	_, ended := terminal.Ended(within)
	require.True(t, ended)
	return terminal
}

func requireText(t *testing.T, terminal *Terminal, want string) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) { require.Equal(c, want, terminal.Text()) }, within, time.Millisecond)
}

func TestAScreenIsWhatAPersonSees(t *testing.T) {
	terminal := ran(t, `printf 'abc\rX\033[2;5H日本 \033[31mred\033[m\033[4;1Hlast'`)
	requireText(t, terminal, "Xbc\n    日本 red\n\nlast")
	require.Contains(t, terminal.Sent(), "\x1b[31mred")
}

func TestAPictureIsTextAndShapes(t *testing.T) {
	script := `printf '\033[44;97mon <blue>\033[m  \033[1mbold\033[m\r\n▁▄█▒ \033[7mback\033[m'`
	terminal := ran(t, script)
	requireText(t, terminal, "on <blue>  bold\n▁▄█▒ back\n\n")
	picture := terminal.SVG(`a "title"`)
	elements := map[string]int{}
	texts := []string{}
	for decoder := xml.NewDecoder(strings.NewReader(string(picture))); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		switch token := token.(type) {
		case xml.StartElement:
			elements[token.Name.Local]++
		case xml.CharData:
			if text := strings.TrimSpace(string(token)); text != "" {
				texts = append(texts, text)
			}
		}
	}
	require.Equal(t, []string{`a "title"`, "on", "<blue>", "bold", "back"}, texts)
	require.Equal(t, map[string]int{"svg": 1, "title": 1, "g": 1, "rect": 3, "text": 4, "path": 2}, elements,
		"a frame, the grounds of two words, and blocks of two kinds")
	require.Equal(t, string(picture), string(ran(t, script+"; :").SVG(`a "title"`)), "the same screen, the same bytes")
}

func TestWhatAProgramLeavesChangedIsSaid(t *testing.T) {
	require.Empty(t, ran(t, `printf '\033[?1049h\033[?25l text \033[?25h\033[?1049l'`).Restored())
	require.Equal(t, "the alternate screen is left on", ran(t, `printf '\033[?1049h'`).Restored())
	require.Equal(t, "the hidden cursor is left on", ran(t, `printf '\033[?25h\033[?25l'`).Restored())
	require.Equal(t, "the settings of the terminal differ", ran(t, `stty -echo`).Restored())
}
