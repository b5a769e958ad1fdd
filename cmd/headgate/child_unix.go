//go:build unix && !linux

package main

import "syscall"

// childAttributes give a child process a process group of its own, so that a Ctrl-C in the terminal does not reach it:
// this program ends it in order.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
