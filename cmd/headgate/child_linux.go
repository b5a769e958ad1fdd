package main

import "syscall"

// childAttributes give a child process a process group of its own, so that a Ctrl-C in the terminal does not reach it:
// this program ends it in order. They also have the system kill the child when this program dies.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
