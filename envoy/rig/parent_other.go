//go:build !linux

package rig

import "os/exec"

// endWithParent needs Linux; elsewhere an Envoy outlives a test binary that is killed.
func endWithParent(*exec.Cmd) {}
