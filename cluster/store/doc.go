// Package store keeps the ledgers of package cluster in Redis: one domain's keys in one hash slot, and one script for
// each call. Keys expire by themselves ten minutes after their last use, but for the limits that were set by hand.
package store
