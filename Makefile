# The commands of this repository. make help lists them.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS   += --no-print-directory
.DEFAULT_GOAL := help

# What a build says it is, and the image that its runs use when they are told
# no other. A build without IMAGE asks for --image.
VERSION ?= $(or $(shell git describe --tags --always --dirty 2>/dev/null),dev)
VERSION := $(VERSION)
IMAGE   ?=

GO       ?= go
JOBS     ?= 2
FUZZTIME ?= 10s
CLUSTER  := .cache/cluster

CLI     := github.com/NVIDIA/aicr/internal/cli
LDFLAGS  = -s -w -X $(CLI).version=$(VERSION) $(if $(IMAGE),-X $(CLI).defaultImage=$(IMAGE))
BUILD    = CGO_ENABLED=0 $(GO) build -p $(JOBS) -trimpath -ldflags "$(LDFLAGS)"
# The whole of Kubernetes is not compiled once more to lint our use of it.
LINT     = $(GO) tool -modfile=$(CURDIR)/tools/lint/go.mod golangci-lint run --config $(CURDIR)/.golangci.yml
# Debian's certificates; the image has these and no others.
CA      ?= /etc/ssl/certs/ca-certificates.crt

# What a node, the test with a real systemd and the race detector need, as
# Debian packages.
PACKAGES := containerd runc containernetworking-plugins iptables iproute2 util-linux ca-certificates gcc libc6-dev systemd dbus

PLATFORMS := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64

# $(call step,name,commands) runs the commands and tells how long they took.
step = begin=$$SECONDS; echo "== $(1)"; { $(2); }; echo "== $(1): $$((SECONDS - begin)) s"

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build aicr for this machine: dist/aicr
	@mkdir -p dist
	$(BUILD) -o dist/ ./cmd/aicr

.PHONY: cross
cross: ## Build and vet for Linux, macOS and Windows, amd64 and arm64: dist/aicr-OS-ARCH
	@mkdir -p dist
	@for platform in $(PLATFORMS); do \
		export GOOS=$${platform%/*} GOARCH=$${platform#*/}; \
		suffix=; [[ $$GOOS != windows ]] || suffix=.exe; \
		$(call step,build for $$platform,$(BUILD) -o dist/aicr-$$GOOS-$$GOARCH$$suffix ./cmd/aicr); \
	done
	@for os in darwin windows; do $(call step,vet for $$os,GOOS=$$os $(GO) vet -p $(JOBS) ./...); done

.PHONY: image
image: ## Pack the agent's image: dist/image (OCI layout), dist/image.tar (for this machine)
	@mkdir -p dist
	GOOS=linux GOARCH=amd64 $(BUILD) -o dist/aicr-linux-amd64 ./cmd/aicr
	GOOS=linux GOARCH=arm64 $(BUILD) -o dist/aicr-linux-arm64 ./cmd/aicr
	$(GO) run -C tools ./image -name aicr -version '$(VERSION)' \
		-ref '$(or $(IMAGE),aicr.local/aicr:$(VERSION))' -ca $(CA) \
		-binary linux/amd64=$(CURDIR)/dist/aicr-linux-amd64 \
		-binary linux/arm64=$(CURDIR)/dist/aicr-linux-arm64 \
		-layout $(CURDIR)/dist/image \
		-archive $(CURDIR)/dist/image.tar -platform linux/$$($(GO) env GOARCH)

.PHONY: kube
kube: ## Build etcd, Kubernetes and kubectl for development clusters, once (11 minutes)
	@$(call step,kube,$(GO) run ./internal/devcluster/cmd/kube)

.PHONY: deps
deps: ## As root on Debian, install what a node needs and is missing
	@missing=; \
	if command -v dpkg-query >/dev/null; then \
		for package in $(PACKAGES); do \
			dpkg-query -W -f '$${db:Status-Status}\n' $$package 2>/dev/null | grep -qx installed || missing+=" $$package"; \
		done; \
	fi; \
	if [[ -z $$missing ]]; then \
		exit 0; \
	elif [[ $$(id -u) != 0 ]]; then \
		echo "not installed, for that takes root:$$missing"; \
	else \
		$(call step,install$$missing,\
			export DEBIAN_FRONTEND=noninteractive; apt-get -q update >/dev/null; \
			apt-get -q install -y --no-install-recommends $$missing >/dev/null); \
	fi

.PHONY: test
test: deps kube ## Run all checks and tests; the one command before a change lands
	@$(call step,vet,$(GO) vet -p $(JOBS) ./...)
	@$(MAKE) lint
	@$(call step,test the tools,cd tools; $(GO) test -p $(JOBS) ./image/...)
	@$(call step,test,export AICR_TEST_REQUIRE_CLUSTER=1; \
		[[ $$(id -u) != 0 ]] || export AICR_TEST_REQUIRE_NODE=1; \
		$(GO) test -race -p $(JOBS) -timeout 30m ./...)

.PHONY: faults
faults: kube ## Prove ownership fault by fault: every case, as a matrix (5 minutes)
	@mkdir -p .cache/bin
	@$(GO) test -c -o .cache/bin/faults ./test/faults
	@$(call step,faults,cd test/faults; AICR_TEST_REQUIRE_CLUSTER=1 ../../.cache/bin/faults -test.timeout 15m -all)

.PHONY: lint
lint: ## Run the linters
	@$(call step,lint,$(LINT) ./...; cd tools; $(LINT) ./image/... ./pause/...)

.PHONY: scale
scale: kube ## Take snapshots of 5,000 nodes with 50,000 pods on a real API server
	@$(call step,scale,AICR_TEST_REQUIRE_CLUSTER=1 AICR_TEST_SCALE=1 $(GO) test -count=1 -timeout 30m -v ./test/scale)

.PHONY: fuzz
fuzz: ## Run each fuzz target for FUZZTIME (10s)
	@for package in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -r dirname | sort -u); do \
		for target in $$(grep -rhoE '^func Fuzz\w+' $$package/*_test.go | cut -c6-); do \
			echo "== $$package $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$package; \
		done; \
	done

.PHONY: tidy-check
tidy-check: ## Check that go.mod and go.sum of all modules are tidy
	@for module in . tools tools/lint; do $(GO) -C $$module mod tidy -diff; done

.PHONY: cluster-up
cluster-up: deps kube ## Start a development cluster that stays, as root with a node
	@mkdir -p .cache/bin
	@$(GO) build -o .cache/bin/cluster ./internal/devcluster/cmd/cluster
	@AICR_BUILD_VERSION='$(VERSION)' .cache/bin/cluster up $(CLUSTER)

.PHONY: cluster-down
cluster-down: ## End that cluster and take away all that it made
	@mkdir -p .cache/bin
	@$(GO) build -o .cache/bin/cluster ./internal/devcluster/cmd/cluster
	@.cache/bin/cluster down $(CLUSTER)

.PHONY: demo
demo: deps kube ## Show a run from an empty machine to its snapshot and back
	@$(GO) run ./internal/demo
