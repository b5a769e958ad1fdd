// Command makeimages builds a release for Linux and pushes its container images, for `make image`. It runs in the
// repository's root.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"

	"github.com/headgate/headgate/build/dist"
	"github.com/headgate/headgate/build/images"
	"github.com/headgate/headgate/build/toolbuild"
)

func main() {
	to := images.Push{Pushed: func(reference string) { fmt.Println(reference) }}
	flag.StringVar(&to.Registry, "registry", "", "where the images go, e.g. registry.example.com/team")
	flag.StringVar(&to.Base, "base", "", "the Envoy image for headgate-gateway; none: no such image")
	flag.Parse()
	if to.Registry == "" || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "where do the images go? e.g. make image REGISTRY=registry.example.com/team")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := makeImages(ctx, to); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func makeImages(ctx context.Context, to images.Push) (err error) {
	stamp, err := toolbuild.ReadStamp(".")
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "headgate-images-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	platforms := slices.DeleteFunc(toolbuild.Released(), func(p toolbuild.Platform) bool { return p.OS != "linux" })
	out := filepath.Join(dir, "dist")
	if err := dist.Make(dist.Release{Root: ".", Out: out, Stamp: stamp, Platforms: platforms}); err != nil {
		return err
	}
	release, err := images.ReadRelease(out, stamp, platforms)
	if err != nil {
		return err
	}
	return release.Push(ctx, to)
}
