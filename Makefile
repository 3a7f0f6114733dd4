# The targets of aidy-gateway. `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help

# Arguments of `make run`, for instance ARGS="--inference-addr 127.0.0.1:0".
ARGS ?=
# More arguments of `make test-clients`, for instance CLIENTS_ARGS="-v -run TestSDKs/anthropic".
CLIENTS_ARGS ?=
# Packages of `make test`.
PKGS ?= ./...
# How often `make test-prop` tries each property; `make test` tries 100 times.
RAPID_CHECKS ?= 2000

GO ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X github.com/aidy-gateway/aidy-gateway/cmd/internal/release.number=$(VERSION)
BUF := $(GO) tool -modfile=.ci/tools/buf/go.mod buf
LINT := $(GO) tool -modfile=.ci/tools/lint/go.mod golangci-lint

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  %-12s %s\n", $$1, $$2}'

.PHONY: setup
setup: ## install what the build and the tests need (Debian and Ubuntu; elsewhere it says what)
	@.ci/setup postgres

.PHONY: setup-test
setup-test:
	@.ci/setup postgres compiler

.PHONY: generate
generate: ## regenerate the Go code of proto/
	$(BUF) format -w --path proto/aidy
	$(BUF) generate

.PHONY: build
build: ## build the three programs into bin/
	@mkdir -p bin
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/aidy ./cmd/aidy-controlplane ./cmd/aidy-dataplane

.PHONY: run
run: setup build ## run the whole product on this machine
	@exec bin/aidy dev $(ARGS)

.PHONY: test
test: setup-test ## run every test with the race detector, and the short simulation without
	$(GO) test -race -timeout 20m $(PKGS)
	$(if $(filter ./...,$(PKGS)),$(GO) test -run 'TestQualityGoals|Cascade' ./dataplane/sim)

.PHONY: sim
sim: ## simulate a fleet for hours of virtual time, beside other ways to choose accounts (minutes)
	$(GO) test -count=1 -timeout 60m -v -run TestQualityGoals ./dataplane/sim -long

.PHONY: test-prop
test-prop: setup-test ## run the property tests with many more tries (RAPID_CHECKS)
	$(GO) test -timeout 60m $$(grep -rl pgregory.net/rapid --include='*_test.go' . | xargs -n1 dirname | sort -u) -rapid.checks=$(RAPID_CHECKS)

.PHONY: test-e2e
test-e2e: setup-test ## run the end-to-end tests alone
	$(GO) test -race -timeout 20m -v ./cmd/aidy/e2e/...

# The models that `make test-clients` serves the clients from: own (each client's own
# protocol), other, all, or a list such as UPSTREAM=openai-chat,gemini.
UPSTREAM ?= own
# Where the clients are installed; they take 1.1 GB.
CLIENTS_DIR ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/aidy-clients

.PHONY: test-clients
test-clients: setup-test ## run others' SDKs and agents through the gateway (needs Node.js and npm; installs 1.1 GB; UPSTREAM)
	@mkdir -p '$(CLIENTS_DIR)'
	@cd cmd/aidy/clients && if ! cmp -s package-lock.json '$(CLIENTS_DIR)/installed.json'; then \
	  rm -f '$(CLIENTS_DIR)/installed.json' && cp package.json package-lock.json .npmrc '$(CLIENTS_DIR)' && \
	  (cd '$(CLIENTS_DIR)' && npm ci) && cp package-lock.json '$(CLIENTS_DIR)/installed.json'; fi
	AIDY_CLIENTS_REQUIRED=1 AIDY_CLIENTS_DIR='$(CLIENTS_DIR)' AIDY_CLIENTS_UPSTREAM='$(UPSTREAM)' \
	  $(GO) test -tags clients -timeout 30m -parallel 4 -count=1 ./cmd/aidy/clients $(CLIENTS_ARGS)

.PHONY: bench
bench: ## measure speed and memory; nginx is compared with where it is installed
	$(GO) test -run '^$$' -bench . -benchmem ./dataplane/... ./shared/...

.PHONY: lint
lint: ## run the linters
	$(LINT) run ./...

.PHONY: check
check: ## everything CI checks beside the tests
	@.ci/check
