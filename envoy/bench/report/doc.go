// Package report writes what a benchmark found: a table in Markdown and pictures in SVG, both into a document that
// people have written around them.
package report
