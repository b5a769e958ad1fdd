// Package pictures is what the pictures in the documents have in common: the load that they show, and the mark that
// says from which files they were made. Those of the page are taken in envoy/dashboard, those of the terminal in
// cmd/headgate.
package pictures
