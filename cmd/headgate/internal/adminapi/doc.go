// Package adminapi speaks with Headgate's admin listener: its state, its events, and the limits that can be changed
// while it runs. docs/admin.md has what the listener answers.
//
// What an answer holds comes from requests of clients in part: names may have any character in them. Nothing here
// makes them fit for a terminal.
package adminapi
