package rig

import "os/exec"

// EndWithParent makes a command that is yet to be started end when this process ends, however it does. Linux only;
// elsewhere it does nothing.
func EndWithParent(cmd *exec.Cmd) { endWithParent(cmd) }
