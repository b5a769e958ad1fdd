package wasmtest

import (
	"fmt"
	"time"
)

// LogLevel is the severity of a log line.
type LogLevel uint32

// The log levels of proxy-wasm 0.2.1.
const (
	LogTrace    LogLevel = 0
	LogDebug    LogLevel = 1
	LogInfo     LogLevel = 2
	LogWarn     LogLevel = 3
	LogError    LogLevel = 4
	LogCritical LogLevel = 5
)

// String returns the level's name in lower case.
func (l LogLevel) String() string {
	names := [...]string{"trace", "debug", "info", "warn", "error", "critical"}
	if int(l) < len(names) {
		return names[l]
	}
	return fmt.Sprintf("LogLevel(%d)", uint32(l))
}

// LogLine is one line a guest logged with proxy_log, or wrote to stdout (info) or stderr (error).
type LogLine struct {
	At      time.Duration // virtual time since the host's start
	Worker  string
	Context uint32 // the effective context it was logged in
	Level   LogLevel
	Message string
}

func (l LogLine) String() string {
	return fmt.Sprintf("%s %s [%s] %s", l.At, l.Worker, l.Level, l.Message)
}

// Logs returns every line logged so far by all VMs, in order.
func (h *Host) Logs() []LogLine { return append([]LogLine(nil), h.logs...) }

// SetLogLevel is what proxy_get_log_level answers from now on ([LogInfo] at first). Lines below it are kept all the
// same.
func (h *Host) SetLogLevel(level LogLevel) { h.logLevel = level }

func (vm *VM) log(level LogLevel, message string) {
	line := LogLine{At: vm.host.Elapsed(), Worker: vm.name(), Context: vm.context().id, Level: level, Message: message}
	vm.host.logs = append(vm.host.logs, line)
	if vm.host.onLog != nil {
		vm.host.onLog(line)
	}
	vm.host.trace(vm.name(), "  [%s] %s", level, message)
}
