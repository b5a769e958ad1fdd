//go:build !linux

package rig

import (
	"errors"
	"testing"
)

// watchPackets needs Linux.
func watchPackets(testing.TB, int) (*Watch, error) { return nil, errors.ErrUnsupported }
