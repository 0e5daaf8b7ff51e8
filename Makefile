# The commands that a person types. On a fresh Debian 12, as root, each does everything, packages included.
.DEFAULT_GOAL := help
.PHONY: $(shell sed -n 's/^\([a-z-]*\):.*##.*/\1/p' Makefile)

SEED ?= 1
STEPS ?= 2000
HOSTS ?= 10000
NODES ?= 100000
SECONDS ?= 20
N ?= 20
PREFIX ?= /usr/local

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | while IFS="$$(printf '\t')" read -r name text; do printf 'make %-14s %s\n' "$$name" "$$text"; done

build: ## compile everything into build/
	@tools/packages build && tools/build build

images: build ## the images tiny and mpi, from Debian's packages, into build/images
	@tools/packages images && images/build tiny build/images && images/build mpi build/images

metal: images ## two emulated hosts with IOMMU, NUMA nodes and virtual functions, managed by weftd, on this machine; weft lab down removes them
	@tools/packages lab && images/build metal build/images && WEFT_BUILD=build lab/weft-lab up --metal

demo: images ## a cloud on this machine: four hosts, two tenants, MPI, isolation, a host cut off; leaves nothing running
	@tools/packages lab && demo/run build

test: images ## everything that must pass before a change is merged, the lab included
	@tools/packages test lab && tools/test build

test-hostile: build ## attacks on weftd, each of which must stop nobody else
	@tools/packages test && tools/test build tests/hostile

test-lab: images ## clusters on real libvirtd, QEMU and opensm, in a lab on this machine
	@tools/packages test lab && tools/test build tests/lab

test-lab-full: images ## the same with the long matrix: a cloud image, the selftest, more failpoints
	@tools/packages test lab && images/build cloud build/images && WEFT_LAB_FULL=1 tools/test build tests/lab

test-mobility: images ## an MPI job through moves, checkpoints and clones on the lab, and what may break then; results to the last bit
	@tools/packages test lab && tools/test build tests/mobility

test-fabric: build ## partitions on real opensm and a simulated fabric: faults, handover, drift, isolation
	@tools/packages test lab && tools/test build tests/fabric

test-fabric-full: build ## the same with the long walk: 500 random operations with opensm killed and swept at random
	@tools/packages test lab && WEFT_FABRIC_FULL=1 tools/test build tests/fabric

test-adapters: STEPS = 300
test-adapters: build ## the real hook on 64 hosts with simulated mlx4 and mlx5 adapters, it and weftd killed at random: SEED=n STEPS=n
	@tools/packages test lab && /usr/bin/python3 tests/adapters/walk.py --build build --seed $(SEED) --steps $(STEPS)

test-metal: images ## emulated hosts with IOMMU and virtual functions: nodes use them, leave nothing there, hosts lose power; 25 minutes at most
	@tools/packages test lab && images/build metal build/images && WEFT_TEST_WORKERS=1 tools/test build tests/metal

test-trust: images ## two emulated hosts with systemd and AppArmor: all that weft does is allowed there, and no node opens what is another's
	@tools/packages test lab && images/build confined build/images && WEFT_TEST_WORKERS=1 tools/test build tests/trust

test-repeat: build ## tests again and again on a busy machine: N=20 TESTS="tests/integration/test_qos.py unit-topology"
	@tools/packages test lab && tools/test-repeat build $(N) $(TESTS)

test-faults: build ## the disk of store and blobs fails or loses power at every write: WEFT_FAULTS_CUTS=n WEFT_FAULTS_PLACES=n for fewer
	@tools/packages test && tools/test build tests/faults

test-asan: ## all but the lab under AddressSanitizer and UBSan, built by clang and by gcc; COMPILER=gcc: of clang's build meson's tests only
	@tools/packages build test clang && tools/test-asan $(COMPILER)

test-tsan: ## weftd and opensm's plugin under ThreadSanitizer, which must report nothing
	@tools/packages build test lab && tools/test-tsan

lint: ## formatting, clang-tidy, cppcheck, shellcheck, pyflakes, man pages, failpoints, headers
	@tools/packages build lint clang && tools/lint

robustness: build ## a random walk of operations, kills and faults: SEED=n STEPS=n
	@tools/packages test && /usr/bin/python3 tests/robustness/random_walk.py --build build --seed $(SEED) --steps $(STEPS)

bench-control: ## 100,000 nodes on 10,000 hosts: HOSTS=n NODES=n
	@tools/packages build test && tools/build build-release --buildtype=release && bench/control --build build-release --hosts $(HOSTS) --nodes $(NODES)

bench-start: images ## 8 nodes from weft create to ready, beside the same guests started by virsh
	@tools/packages test lab && bench/start --build build

bench-fork: images ## 1, 8 and 32 nodes from weft create to ready, forked and booted, beside the same guests started by virsh
	@tools/packages test lab && bench/fork --build build

bench-migrate: images ## a node that is idle, writes slower and faster than the link: moved by each method, and by weft's choice
	@tools/packages test lab && bench/migrate --build build

try-rdma: images ## a guest moves between two emulated hosts over RDMA (rxe) by weft's driver; some minutes, and times say nothing
	@tools/packages test lab && tests/metal/try-rdma --build build

bench-fabric: ## a partition of 8 nodes by opensm's plugin and by SIGHUP, on simulated fabrics of 256, 1,024 and 4,096 hosts
	@tools/packages build test lab && tools/build build-release --buildtype=release && bench/fabric --build build-release

bench-schedule: ## microseconds for a gang on up to 100,000 hosts, how near to the exact optimum, and both beside Slurm
	@tools/packages build test && tools/build build-release --buildtype=release && bench/schedule --build build-release

bench-hostile: ## what a tenant and an operator wait while others attack the API, beside quiet turns of the same run
	@tools/packages build test && tools/build build-release --buildtype=release && bench/hostile --build build-release

fuzz: ## each libFuzzer target for SECONDS=n
	@tools/packages build clang && tools/fuzz $(SECONDS)

install: build ## to PREFIX=/usr/local, under DESTDIR where it is set
	@meson configure build --prefix $(PREFIX) && meson install -C build

clean: ## remove what was built
	@rm -rf build build-asan-* build-clang build-fuzz build-release build-tsan
