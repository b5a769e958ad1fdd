// Package screentest runs a program on a terminal of its own for tests: a pseudo-terminal, with an emulator behind it
// that answers what programs ask terminals. A test sees what a person would see, types keys, changes the size, and can
// take a picture of the screen as SVG.
package screentest
