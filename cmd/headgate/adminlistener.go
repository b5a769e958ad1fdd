package main

import (
	"errors"
	"net"
	"net/netip"
	"strings"
)

// An adminListener is where Headgate's admin page is, with the API for live limits and Envoy's stats.
type adminListener struct {
	netip.AddrPort      // not valid: nowhere
	given          bool // by --admin
	moved          bool // from the default, which is taken
}

func defaultAdmin() adminListener {
	return adminListener{AddrPort: netip.MustParseAddrPort("127.0.0.1:10001")}
}

// parseAdmin reads the address of the admin listener, or off.
func parseAdmin(text string) (adminListener, error) {
	if text == "off" {
		return adminListener{given: true}, nil
	}
	address, err := parseAddress(text)
	if err != nil {
		return adminListener{}, errors.New("want IP:PORT, e.g. 127.0.0.1:10001, or off")
	}
	return adminListener{AddrPort: address, given: true}, nil
}

// isOn reports whether there is an admin listener.
func (a *adminListener) isOn() bool { return a.IsValid() }

// isExposed reports whether others than this machine reach it.
func (a *adminListener) isExposed() bool { return a.isOn() && !a.Addr().IsLoopback() }

// settle looks whether the address can be had. The default makes way for another gateway; an address that was asked for
// doesn't.
func (a *adminListener) settle() error {
	if !a.isOn() {
		return nil
	}
	err := checkAddress(a.AddrPort, "--admin")
	if err != nil && !a.given {
		a.makeWay()
		return nil
	}
	return err
}

// makeWay leaves the default to whoever has it: Envoy chooses a free port.
func (a *adminListener) makeWay() {
	a.moved = true
	a.AddrPort = netip.AddrPortFrom(a.Addr(), 0)
}

// errPortLost says that somebody has taken a port of our choice between the look at it and Envoy's start. There is
// another one now.
var errPortLost = errors.New("a port was taken meanwhile")

// startTries is how often Envoy is started with other ports.
const startTries = 4

// replaceLost chooses another port for the one that Envoy's log says it could not have; false: it was none of our
// choice.
func (p *runPlan) replaceLost(log string) bool {
	switch {
	case p.admin.isOn() && !p.admin.given && !p.admin.moved && isTaken(log, p.admin.AddrPort):
		p.admin.makeWay()
		return true
	case isTaken(log, p.envoyAdmin):
		port, err := freePort()
		p.envoyAdmin = port
		return err == nil
	}
	return false
}

// isTaken reports whether Envoy's log says that it could not have an address. Other lines may come after that one.
func isTaken(log string, address netip.AddrPort) bool {
	return strings.Contains(log, "cannot bind '"+address.String()+"'")
}

// freePort is a port of loopback that is free now. Envoy's own admin interface gets it: both it and the cluster that
// leads to it have to be told.
func freePort() (netip.AddrPort, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return netip.AddrPort{}, err
	}
	defer listener.Close()
	return netip.ParseAddrPort(listener.Addr().String())
}

// The parts of envoy.yaml that are about the admin listener.
const (
	adminListenerPath = "static_resources/listeners/1"
	adminConnection   = adminListenerPath + "/filter_chains/0/filters/0/typed_config/"
	adminFilterPath   = adminConnection + "http_filters/0/typed_config/config/"
	adminClusterPath  = "static_resources/clusters/2"
)

// setAdmin has the bootstrap listen for the admin page where the flags say, or not at all.
func (g *gateway) setAdmin(e *yamlEdit) {
	e.setAddress("admin/", g.envoyAdmin.Addr().String(), g.envoyAdmin.Port())
	if !g.admin.isOn() {
		e.remove(adminListenerPath)
		e.remove(adminClusterPath)
		return
	}
	e.setAddress(adminListenerPath+"/", g.admin.Addr().String(), g.admin.Port())
	endpoint := adminClusterPath + "/" + clusterEndpoint
	e.setAddress(endpoint, g.envoyAdmin.Addr().String(), g.envoyAdmin.Port())
}
