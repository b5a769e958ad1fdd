package dist

import (
	"bytes"
	"fmt"
	"os/exec"

	"github.com/cpuguy83/go-md2man/v2/md2man"

	"github.com/headgate/headgate/build/archive"
)

// completions are the files that shells read completions from, by the shell.
var completions = []struct{ shell, file string }{
	{"bash", "completions/headgate.bash"}, {"fish", "completions/headgate.fish"}, {"zsh", "completions/_headgate"},
}

// shellFiles are the manual page and the completions, which the tool, one for this machine, prints.
func shellFiles(tool string) (files []archive.File, err error) {
	manual, err := printed(tool, "manual")
	if err != nil {
		return nil, err
	}
	files = append(files, archive.File{Name: "man/man1/headgate.1", Mode: 0o644, Data: md2man.Render(manual)})
	for _, c := range completions {
		script, err := printed(tool, "completion", c.shell)
		if err != nil {
			return nil, err
		}
		files = append(files, archive.File{Name: c.file, Mode: 0o644, Data: script})
	}
	return files, nil
}

// printed is what the tool prints.
func printed(tool string, args ...string) ([]byte, error) {
	cmd := exec.Command(tool, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("headgate %v: %w\n%s", args, err, stderr.Bytes())
	}
	return out, nil
}
