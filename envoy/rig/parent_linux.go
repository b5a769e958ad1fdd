package rig

import (
	"os/exec"
	"syscall"
)

// endWithParent has the kernel kill the process when this one dies, however it dies (a test's timeout runs no
// clean-up).
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
