package toolbuild

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// A Stamp says what a build is made of. It goes into the tool and into all that is made from it.
type Stamp struct {
	Version string    // a tag, or the distance from one, or a commit; "unknown" outside of a clone
	Commit  string    // in full; "" outside of a clone
	Time    time.Time // the commit's, never the build's
}

// ReadStamp returns the stamp of the source in the folder root. $SOURCE_DATE_EPOCH, seconds since 1970, is another
// time. Outside of a clone the time is 1970.
func ReadStamp(root string) (Stamp, error) {
	stamp := Stamp{Version: "unknown", Time: time.Unix(0, 0).UTC()}
	// --abbrev: by itself git chooses a length that depends on what else a clone holds.
	version, err := git(root, "describe", "--tags", "--always", "--dirty", "--abbrev=12")
	if err == nil {
		stamp.Version = version
		if err := stamp.readCommit(root); err != nil {
			return Stamp{}, err
		}
	}
	if epoch := os.Getenv("SOURCE_DATE_EPOCH"); epoch != "" {
		if stamp.Time, err = seconds(epoch); err != nil {
			return Stamp{}, fmt.Errorf("$SOURCE_DATE_EPOCH: %w", err)
		}
	}
	return stamp, nil
}

func (s *Stamp) readCommit(root string) error {
	text, err := git(root, "log", "-1", "--format=%H %ct")
	if err != nil {
		return err
	}
	commit, epoch, _ := strings.Cut(text, " ")
	s.Commit = commit
	s.Time, err = seconds(epoch)
	return err
}

func seconds(text string) (time.Time, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is no number of seconds since 1970", text)
	}
	return time.Unix(n, 0).UTC(), nil
}

// git runs git in a folder that is the top of a clone. A folder inside of another clone is no part of that one.
func git(root string, args ...string) (string, error) {
	top, err := output("git", "-C", root, "rev-parse", "--show-cdup")
	if err != nil {
		return "", err
	}
	if top != "" {
		return "", errors.New(root + " is not the top of a clone")
	}
	return output("git", append([]string{"-C", root}, args...)...)
}

func output(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, stderr.Bytes())
	}
	return string(bytes.TrimSpace(text)), nil
}
