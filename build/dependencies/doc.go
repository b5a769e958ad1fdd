// Package dependencies says what a built program consists of: the modules in it, their licences, and the bill of
// materials (SBOM) that tells both. A licence that it does not know, or that is not among the allowed ones, is an
// error: people decide, not a program.
package dependencies
