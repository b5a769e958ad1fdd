// Package dist makes a release: a folder with the module, the tool for each platform, and what goes along with them.
// The same source and stamp, built by the same version of Go, give the same bytes in any folder. docs/releasing.md
// lists the files.
package dist
