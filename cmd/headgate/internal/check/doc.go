// Package check finds Headgate's configuration in a file as people have it, and says what is wrong with it and what
// will bite later. A file is a plugin configuration, an Istio WasmPlugin, an Envoy Gateway EnvoyExtensionPolicy or
// Envoy's own configuration, in JSON or YAML.
//
// What a plugin configuration may hold is decided by package config alone. This package writes what it read as JSON,
// lets config.Parse judge it, puts something harmless in the place of what was refused, and asks again: collect.go and
// repair.go. So all problems are found in one run, and no rule stands here a second time. That costs the filter
// nothing: its module links package config, and not this one.
//
// json.go and yaml.go read a file into a tree that knows its lines (tree.go), and encode.go writes the tree as JSON.
// documents.go and kubernetes.go find the plugin configurations in the tree. routewarnings.go, poolwarnings.go and
// identitywarnings.go warn of what does nothing; envoyfile.go, cluster.go and listener.go of what Envoy does not allow.
package check
