package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/headgate/headgate/admission/config"
)

// A governing is what the gateway governs, and how: the plugin configuration that its flags or its file make.
type governing struct {
	routes      []config.Route // empty: every request
	longestWait time.Duration  // of a request that waits as long as it may in each pool
	textFor     func(stage string) (string, error)
}

// governing returns the plugin configuration: that of --config, or template, the one of envoy.yaml, with the values of
// the flags.
func (g *gateway) governing(template string) (*governing, error) {
	if g.configPath == "" {
		return g.governingByFlags(template)
	}
	if g.file == nil {
		file, err := readPluginFile(g.configPath)
		if err != nil {
			return nil, err
		}
		g.file = file
	}
	made := &governing{
		routes:  g.file.cfg.Routes,
		textFor: func(stage string) (string, error) { return g.file.textFor(stage, g.mode, g.admin.isExposed()) },
	}
	for i := range g.file.cfg.Pools {
		made.longestWait += time.Duration(g.file.cfg.Pools[i].MaxWait)
	}
	return made, nil
}

func (g *gateway) governingByFlags(template string) (*governing, error) {
	cfg, err := g.plugin(template)
	if err != nil {
		return nil, err
	}
	made := &governing{
		longestWait: g.queueTimeout * time.Duration(len(cfg.Pools)),
		textFor:     func(stage string) (string, error) { return cfg.textFor(stage), nil },
	}
	for _, text := range cfg.Routes {
		route, err := config.ParseRoute(text)
		if err != nil {
			return nil, err
		}
		made.routes = append(made.routes, route)
	}
	return made, nil
}

// sectionsOfTheFile are the sections of the flags that have no effect with --config: the file says what they say.
var sectionsOfTheFile = []string{sectionLimits, sectionAfterRequest, sectionBreaker}

// refuseReplacedFlags refuses the given flags that --config takes the place of.
func (g *gateway) refuseReplacedFlags(f *flagSet) error {
	if g.configPath == "" {
		return nil
	}
	if given := f.givenIn(sectionsOfTheFile); len(given) > 0 {
		verb := "have"
		if len(given) == 1 {
			verb = "has"
		}
		return fmt.Errorf("--%s %s no effect with --config: say it in %s, or leave --config out",
			strings.Join(given, ", --"), verb, g.configPath)
	}
	return nil
}

// modes are what --mode takes: the modes of the plugin configuration, in the order of config.Mode.
var modes = []string{"enforce", "shadow", "disabled"}

// modeInForce is the mode that the plugin runs in.
func (g *gateway) modeInForce() string {
	switch {
	case g.mode != "":
		return g.mode
	case g.file != nil:
		return modes[g.file.cfg.Mode]
	}
	return "enforce"
}

func parseMode(text string) (string, error) {
	for _, mode := range modes {
		if mode == text {
			return mode, nil
		}
	}
	return "", errors.New("want enforce, shadow or disabled")
}
