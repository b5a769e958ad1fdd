// Package toolbuild builds the headgate tool, for `make build`, for a release and for the container images. The same
// source, built by the same version of Go, gives the same bytes: in any folder, at any time, on any machine.
package toolbuild
