package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cluster/service"
	"github.com/headgate/headgate/cluster/store"
)

// What the environment says to headgate fleet.
const (
	redisVariable            = "HEADGATE_REDIS"
	redisUserVariable        = "HEADGATE_REDIS_USERNAME"
	redisPasswordVariable    = "HEADGATE_REDIS_PASSWORD"
	sentinelUserVariable     = "HEADGATE_SENTINEL_USERNAME"
	sentinelPasswordVariable = "HEADGATE_SENTINEL_PASSWORD"
	fleetTokenVariable       = "HEADGATE_FLEET_TOKEN"
)

// A fleetPlan is what the flags of fleet say.
type fleetPlan struct {
	redis             string
	passwordFile      string
	redisFiles        tlsFiles
	listen            netip.AddrPort
	token, tokenFile  string
	certFile, keyFile string
	logFormat         string
	environment       func(string) string

	address  store.Address
	settings store.Settings
}

func fleetCommand(term terminal) *cobra.Command {
	c, flags, plan := newFleet()
	c.RunE = func(*cobra.Command, []string) error {
		notes := newNotes(term.err)
		warnOfRepeated(notes, flags)
		if err := plan.resolve(); err != nil {
			return usageError{err}
		}
		asked := catchSignals(false)
		defer asked.stop()
		return plan.run(asked.end, term)
	}
	return c
}

const fleetExamples = `  # With a Redis of this machine, for replicas of this machine.
  headgate fleet --redis redis://127.0.0.1:6379/0

  # As it runs in production: the secrets are in the environment and in files.
  HEADGATE_REDIS_USERNAME=headgate headgate fleet --redis rediss+sentinel://s1:26379,s2:26379,s3:26379/mymaster \
    --redis-password-file /run/secrets/redis --listen 0.0.0.0:10800 --token-file /run/secrets/fleet

  # A Redis Cluster, with an authority of its own for its certificates.
  headgate fleet --redis rediss+cluster://r1:6379,r2:6379 --redis-ca ca.pem --log json`

// newFleet makes the command fleet without its action, its flags, and the plan that they fill.
func newFleet() (*cobra.Command, *flagSet, *fleetPlan) {
	c := &cobra.Command{
		Use:     "fleet --redis URL [FLAGS]",
		Short:   "Share limits among replicas over Redis. In the making: no gateway asks it yet.",
		Args:    noArguments,
		Example: fleetExamples,
	}
	p := &fleetPlan{listen: netip.MustParseAddrPort("127.0.0.1:10800"), logFormat: "text", environment: os.Getenv}
	f := newFlagSet(c)
	f.startSection("Redis")
	addFlag(f, &p.redis, "redis", "", "Keep the shares in the Redis at `URL`: redis://HOST:PORT/DATABASE, "+
		"redis+sentinel://HOST:PORT,HOST:PORT/MASTER or redis+cluster://HOST:PORT,HOST:PORT, and rediss for TLS. "+
		"Or say it in "+redisVariable+".", asIs)
	addFlag(f, &p.passwordFile, "redis-password-file", "", "Read Redis's password from `FILE`. Or say it in "+
		redisPasswordVariable+", and the user in "+redisUserVariable+".", asIs)
	addFlag(f, &p.redisFiles.ca, "redis-ca", "", "Trust the certificates of the authorities in `FILE` alone.", asIs)
	addFlag(f, &p.redisFiles.cert, "redis-cert", "", "Show Redis the certificate in `FILE`.", asIs)
	addFlag(f, &p.redisFiles.key, "redis-key", "", "Read the key of --redis-cert from `FILE`.", asIs)
	f.startSection("Replicas")
	addFlag(f, &p.listen, "listen", p.listen.String(), "Listen at `IP:PORT`. Beyond this machine a token is needed.",
		parseListen)
	addFlag(f, &p.token, "token", "", "Answer only those who say `TOKEN`. Others on this machine can read it here: "+
		"rather say it in "+fleetTokenVariable+" or with --token-file.", asIs)
	for _, name := range []string{"redis", "token"} {
		f.Lookup(name).Value.(*flagValue).secret = true
	}
	addFlag(f, &p.tokenFile, "token-file", "", "Read the token from `FILE`.", asIs)
	addFlag(f, &p.certFile, "tls-cert", "", "Speak TLS, with the certificate in `FILE`.", asIs)
	addFlag(f, &p.keyFile, "tls-key", "", "Read the key of --tls-cert from `FILE`.", asIs)
	f.startSection("The process")
	f.words["log"] = []string{"text", "json"}
	addFlag(f, &p.logFormat, "log", p.logFormat, "Write the log as `FORMAT`: text or json.", parseLogFormat)
	return c, f, p
}

func asIs(text string) (string, error) { return text, nil }

func parseListen(text string) (netip.AddrPort, error) {
	address, err := netip.ParseAddrPort(text)
	if err != nil {
		return address, errors.New("want an address and a port, e.g. 127.0.0.1:10800, [::]:10800")
	}
	return address, nil
}

func parseLogFormat(text string) (string, error) {
	if text != "text" && text != "json" {
		return "", errors.New("want text or json")
	}
	return text, nil
}

// resolve completes the plan after its flags are read.
func (p *fleetPlan) resolve() (err error) {
	if p.redis == "" {
		p.redis = p.environment(redisVariable)
	}
	if p.redis == "" {
		return errors.New("fleet needs a Redis: --redis redis://HOST:6379/0, or the same in " + redisVariable)
	}
	if p.address, err = store.ParseAddress(p.redis); err != nil {
		return fmt.Errorf("--redis: %w", err)
	}
	if err := p.resolveSecrets(); err != nil {
		return err
	}
	if p.address.TLS {
		if p.settings.TLS, err = p.redisFiles.client(); err != nil {
			return err
		}
	} else if p.redisFiles != (tlsFiles{}) {
		return errors.New("--redis-ca, --redis-cert and --redis-key are for TLS: write rediss in place of redis in --redis")
	}
	if (p.certFile == "") != (p.keyFile == "") {
		return errors.New("--tls-cert and --tls-key belong together: give both or none")
	}
	if p.token == "" && !p.listen.Addr().IsLoopback() {
		return fmt.Errorf("--listen %s lets other machines call, so a token is needed: --token-file FILE, or %s",
			p.listen, fleetTokenVariable)
	}
	return nil
}

// resolveSecrets reads the secrets from where they are.
func (p *fleetPlan) resolveSecrets() (err error) {
	if p.token != "" && p.tokenFile != "" {
		return errors.New("--token and --token-file say the same thing: leave one out")
	}
	if p.tokenFile != "" {
		if p.token, err = readSecret("--token-file", p.tokenFile); err != nil {
			return err
		}
	}
	if p.token == "" {
		p.token = p.environment(fleetTokenVariable)
	}
	if user := p.environment(redisUserVariable); p.address.Username == "" {
		p.address.Username = user
	}
	if p.passwordFile != "" {
		p.address.Password, err = readSecret("--redis-password-file", p.passwordFile)
	} else if password := p.environment(redisPasswordVariable); password != "" {
		p.address.Password = password
	}
	p.settings.SentinelUsername = p.environment(sentinelUserVariable)
	p.settings.SentinelPassword = p.environment(sentinelPasswordVariable)
	return err
}

// maxSecretBytes bounds a file with a secret: a wrong file may be endless.
const maxSecretBytes = 4096

// readSecret reads a secret from a file, without the line's end.
func readSecret(flag, file string) (string, error) {
	text, err := readAtMost(file, maxSecretBytes)
	if err != nil {
		return "", fmt.Errorf("%s: %w", flag, err)
	}
	secret := strings.TrimRight(string(text), "\r\n")
	if secret == "" || len(text) > maxSecretBytes || strings.ContainsAny(secret, "\r\n") {
		return "", fmt.Errorf("%s: %s has no secret (want one line of at most %d bytes)", flag, file, maxSecretBytes)
	}
	return secret, nil
}

// The times of the service's HTTP.
const (
	fleetHeaderTime = 5 * time.Second
	fleetBodyTime   = 10 * time.Second
	fleetAnswerTime = 15 * time.Second
	fleetIdleTime   = 2 * time.Minute
	fleetEndTime    = 10 * time.Second
	maxHeaderBytes  = 16 << 10
)

// run serves until asked to end.
func (p *fleetPlan) run(asked context.Context, term terminal) error {
	log := slog.New(slog.NewTextHandler(term.err, nil))
	if p.logFormat == "json" {
		log = slog.New(slog.NewJSONHandler(term.err, nil))
	}
	listener, err := net.Listen("tcp", p.listen.String())
	if err != nil {
		return fmt.Errorf("%w (take another address with --listen)", err)
	}
	redis := store.New(p.address.Options(p.settings))
	defer func() { _ = redis.Close() }()
	answers := service.New(service.Settings{Store: redis, Token: p.token, Log: log})
	server := &http.Server{
		Handler: answers, ReadHeaderTimeout: fleetHeaderTime, ReadTimeout: fleetBodyTime, WriteTimeout: fleetAnswerTime,
		IdleTimeout: fleetIdleTime, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	ended := make(chan error, 1)
	go func() {
		if p.certFile != "" {
			ended <- server.ServeTLS(listener, p.certFile, p.keyFile)
			return
		}
		ended <- server.Serve(listener)
	}()
	log.Info("serving", "listen", listener.Addr().String(), "redis", p.address.String(), "token", p.token != "",
		"tls", p.certFile != "", "version", version)
	if p.token == "" {
		log.Warn("everybody on this machine can call, since there is no token: " + fleetTokenVariable + " sets one")
	}
	select {
	case err := <-ended:
		return err
	case <-asked.Done():
	}
	answers.Stop()
	log.Info("ending: what runs may finish")
	limited, cancel := context.WithTimeout(context.Background(), fleetEndTime)
	defer cancel()
	return server.Shutdown(limited)
}
