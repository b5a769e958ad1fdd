// Package service is the HTTP side of the share service: it reads calls, has the store carry them out, and tells how
// that went in answers, metrics and the log. It keeps nothing, so any number of services can work side by side.
package service
