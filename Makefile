# `make help` lists the targets. What a target does is in scripts/ and in the atoll command, so that
# it can be run without make; defaults live in the atoll command alone.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup doctor emulate run compare clean test lint test-ryu test-kernel bench docs distclean \
	vm vm-test vm-destroy

VENV := .venv/bin
SETUP := bash scripts/setup.sh
KERNEL_LOG := build/test-kernel-short.log
# A part of the tests may have none of one kind: pytest then ends with 5.
OR_NONE := || [ $$? = 5 ]
# As many tests at once as there are processors: none of them is to use several.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

#@ TOPO=nine_city     emulate, compare: a bundled topology, or the path of a file
#@ ROUNDS=6           emulate: synchronizations of the training
#@ SCALE=0.01         emulate: emulated rate / real rate
#@ SEED=1             emulate: seed of data, model and links
#@ CAPABILITY=unicast emulate: of the network: multicast, aggregation, multicast+aggregation
#@ COLLECTIVE=ring    emulate: how cliques exchange: exchange, multicast, aggregation, innetwork
#@ CAPTURE=1          emulate: capture every link into the run record
#@ FILE=<path>        run: an experiment, such as experiments/diloco.yaml
#@ REPETITIONS=2      compare: trainings of every variant
#@ RUN=<id>           clean: this run only
#@ TESTS=tests/links  test: this part of the tests only
EMULATE_FLAGS = $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(SCALE),--rate-scale $(SCALE)) \
	$(if $(SEED),--seed $(SEED)) $(if $(CAPTURE),--capture) \
	$(if $(CAPABILITY),--capability $(CAPABILITY)) $(if $(COLLECTIVE),--collective $(COLLECTIVE))

help: ## this list
	@echo 'Targets:'
	@sed -nE 's/^([a-z-]+):.*## (.*)/  \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 14
	@echo; echo 'Variables (make TARGET NAME=VALUE):'
	@sed -nE 's/^#@ (.*)/  \1/p' $(firstword $(MAKEFILE_LIST))

setup: ## install what is missing: Debian packages (as root), .venv, linkd
	@$(SETUP)

doctor: ## say what this machine has and lacks, and how to get it
	@$(SETUP) --quiet
	@$(VENV)/atoll doctor

emulate: ## build the cities, train across them, measure every link; a record in runs/
	@$(SETUP) --quiet
	@$(VENV)/atoll emulate $(TOPO) $(EMULATE_FLAGS)

run: ## carry an experiment out: make run FILE=experiments/rotating_triples.yaml
	@$(SETUP) --quiet
	@$(VENV)/atoll run $(FILE)

compare: ## every way to exchange, with its best plan and with one clique, beside the best ring
	@$(SETUP) --quiet
	@$(VENV)/atoll compare $(TOPO) $(if $(REPETITIONS),--repetitions $(REPETITIONS))

clean: ## remove what runs that were killed left behind (RUN=<id>: that run only)
	@$(VENV)/atoll clean $(RUN)

lint: ## style, formatting and types
	@$(SETUP) --quiet
	$(VENV)/ruff check .
	$(VENV)/ruff format --check .
	$(VENV)/mypy

test-ryu: ## the controller's tests on ryu 4.34 itself, in .venv-ryu
	@$(SETUP) --quiet
	sh scripts/test_ryu.sh

test-kernel: ## netem and kernel switches on Debian's kernel in a VM emulated in software (as root)
	@$(SETUP) --quiet
	@sh scripts/test_kernel.sh

vm: ## a virtual machine with all of it, by Vagrant: see docs/vm.md
	vagrant up

vm-test: ## build a box for libvirt, prove the VM with it, leave nothing (as root, on Debian)
	@$(SETUP) --quiet
	@bash vm/test.sh

vm-destroy: ## remove that virtual machine and all that is in it
	vagrant destroy --force

# The kernel's short test is a minute of one processor, and ends with 77 where it cannot be tried: it
# runs beside the others, but not beside those that need root, as these watch the clock.
test: ## lint, ryu, Debian's kernel in short, then every test (those that need root: as root)
	@$(SETUP)
	@sh scripts/browser.sh
	@mkdir -p build
	@$(if $(TESTS),true,sh scripts/test_kernel.sh --short) >$(KERNEL_LOG) 2>&1 & kernel=$$!; \
	trap 'kill $$kernel 2>/dev/null || true' EXIT; \
	$(MAKE) --no-print-directory lint test-ryu; \
	$(ONE_THREAD) $(VENV)/pytest --numprocesses auto -m 'not root' $(TESTS) $(OR_NONE); \
	wait $$kernel && ended=0 || ended=$$?; cat $(KERNEL_LOG); [ $$ended = 0 ] || [ $$ended = 77 ]
	$(VENV)/pytest -m root $(TESTS) $(OR_NONE)

bench: ## measure links, bring-up and schedules against their goals (as root; BENCH=bench/links.py: that one)
	@$(SETUP) --quiet
	@failed=; for bench in $(or $(BENCH),$$(grep -l __main__ bench/*.py)); do \
	  echo "== $$bench"; $(VENV)/python $$bench || failed="$$failed $$bench"; done; \
	[ -z "$$failed" ] || { echo "a goal was missed:$$failed"; exit 1; }

docs: ## write anew the documents that are made from the code
	@$(SETUP) --quiet
	@bash scripts/docs.sh

distclean: ## remove both virtual environments, caches and compiled files; keeps runs/
	rm -rf .venv .venv-ryu build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -rf testbed/links/linkd/build testbed/accelerator/build workloads/innetwork/native/build
