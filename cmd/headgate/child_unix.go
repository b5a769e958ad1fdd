//go:build unix && !linux

package main

import "syscall"

// childAttributes give a child a process group of its own, so that a Ctrl-C reaches it through us only.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
