# The commands that a person types. On a fresh Debian 12, as root, each does everything, packages included.
.DEFAULT_GOAL := help
.PHONY: help build images demo test test-lab test-lab-full test-asan lint robustness bench-control bench-start fuzz install clean

SEED ?= 1
STEPS ?= 2000
HOSTS ?= 10000
NODES ?= 100000
SECONDS ?= 20
PREFIX ?= /usr/local

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | while IFS="$$(printf '\t')" read -r name text; do printf 'make %-14s %s\n' "$$name" "$$text"; done

build: ## compile weftd and weft into build/
	@tools/packages build && tools/build build

images: build ## the images tiny and mpi, from Debian's packages, into build/images
	@tools/packages images && images/build tiny build/images && images/build mpi build/images

demo: build ## two tenants, two clusters, on a described fleet; leaves nothing running
	@demo/run build

test: build ## everything that must pass before a change is merged
	@tools/packages test && tools/test build

test-asan: ## the same under AddressSanitizer and UBSan, built by clang and by gcc
	@tools/packages build test clang && tools/test-asan

lint: ## formatting, clang-tidy, cppcheck, shellcheck, man pages, failpoints, headers
	@tools/packages build lint clang && tools/lint

robustness: build ## a random walk of operations, kills and faults: SEED=n STEPS=n
	@tools/packages test && /usr/bin/python3 tests/robustness/random_walk.py --build build --seed $(SEED) --steps $(STEPS)

bench-control: ## 100,000 nodes on 10,000 hosts: HOSTS=n NODES=n
	@tools/packages build test && tools/build build-release --buildtype=release && bench/control --build build-release --hosts $(HOSTS) --nodes $(NODES)

fuzz: ## each libFuzzer target for SECONDS=n
	@tools/packages build clang && tools/fuzz $(SECONDS)

install: build ## to PREFIX=/usr/local, under DESTDIR where it is set
	@meson configure build --prefix $(PREFIX) && meson install -C build

clean: ## remove what was built
	@rm -rf build build-asan-* build-clang build-fuzz build-release
