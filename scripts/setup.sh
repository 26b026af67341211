#!/usr/bin/env bash
# Prepares a Debian or Ubuntu machine for Atoll, and does nothing where nothing is missing:
#   1. the Debian packages of packages.debian.txt (needs root only if one is missing),
#   2. the virtual environment .venv with what pyproject.toml asks for,
#   3. what carries packets, compiled: linkd (links), accelerator (sums), endpoint (islands).
# One script for `make setup`, CI and the VM, so that what CI proves is what a user gets.
#
#   scripts/setup.sh            one line a step
#   scripts/setup.sh --quiet    only the steps that had something to do
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly PACKAGE_LIST=packages.debian.txt
readonly VENV=.venv
readonly STAMP=$VENV/.atoll-installed
readonly POLICY=/usr/sbin/policy-rc.d
readonly OLDEST_PYTHON=3.10 NEWEST_PYTHON=3.13

quiet=no
log=
made_policy=no

# --- telling ---------------------------------------------------------------------------------

now_ms() { local t=${EPOCHREALTIME/[.,]/}; echo $((t / 1000)); }

seconds_since() { # START_MS
  local ms=$(($(now_ms) - $1))
  printf '%d.%d s' $((ms / 1000)) $((ms % 1000 / 100))
}

say() { printf 'setup: %s\n' "$*"; }

nothing_to_do() { # STEP DETAIL
  [ "$quiet" = yes ] || say "$1: $2"
}

done_since() { # STEP START_MS DETAIL
  say "$1: $3, $(seconds_since "$2")"
}

fail() {
  printf 'setup: %s\n' "$@" >&2
  exit 1
}

run_logged() { # COMMAND...: silent, but its last lines are shown if it fails
  if ! "$@" >"$log" 2>&1 </dev/null; then
    printf 'setup: this failed: %s\n' "$*" >&2
    tail -n 15 "$log" | sed 's/^/setup:   /' >&2
    return 1
  fi
}

leave() {
  [ "$made_policy" = no ] || rm -f "$POLICY"
  [ -z "$log" ] || rm -f "$log"
}

# --- the system ------------------------------------------------------------------------------

require_debian() {
  [ "$(uname -s)" = Linux ] ||
    fail "Atoll needs Linux, and this is $(uname -s): the VM has everything, see docs/vm.md"
  command -v apt-get >/dev/null ||
    fail "this script installs with apt-get, which is not here: use Debian 12, Ubuntu 22.04 or 24.04, or the VM (docs/vm.md)"
}

listed_packages() { sed -e 's/#.*//' -e 's/[[:space:]]//g' -e '/^$/d' "$PACKAGE_LIST"; }

missing_packages() {
  local installed
  # shellcheck disable=SC2016  # dpkg-query fills these in itself
  # dpkg-query exits 1 when it has never heard of one of the names: that one is missing.
  installed=$(listed_packages | xargs dpkg-query -W -f='${db:Status-Status} ${Package}\n' \
    2>/dev/null | sed -n 's/^installed //p') || true
  listed_packages | grep -vxF -e "$installed" || true
}

# A package that starts its service on install asks policy-rc.d first; 101 means no.
forbid_service_starts() {
  [ ! -e "$POLICY" ] || return 0
  printf '#!/bin/sh\nexit 101\n' >"$POLICY"
  made_policy=yes
  chmod 755 "$POLICY"
}

allow_service_starts() {
  [ "$made_policy" = no ] || rm -f "$POLICY"
  made_policy=no
}

enabled_units() {
  command -v systemctl >/dev/null || return 0
  systemctl list-unit-files --state=enabled --no-legend --no-pager 2>/dev/null |
    sed 's/[[:space:]].*//' | sort
}

# Debian enables the services of a package that it installs. What was not enabled before is not to
# open a port at the machine's next boot because of us: a run starts its own daemons.
disable_all_units_but() { # NAMES, one a line
  local unit
  for unit in $(enabled_units | grep -vxF -e "$1"); do
    run_logged systemctl disable "$unit" ||
      say "Debian packages: $unit stays enabled, which Atoll has no use for"
  done
}

apt() {
  # needrestart (Ubuntu) would restart unrelated services after an unattended install.
  DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 \
    apt-get --quiet --assume-yes -o DPkg::Lock::Timeout=300 "$@"
}

install_debian_packages() {
  local missing started enabled_before
  started=$(now_ms)
  missing=$(missing_packages)
  if [ -z "$missing" ]; then
    nothing_to_do "Debian packages" "all $(listed_packages | wc -l) are there"
    return
  fi
  # shellcheck disable=SC2086  # one word a package
  set -- $missing
  [ "$(id -u)" = 0 ] || fail \
    "these Debian packages are missing, and installing them needs root: $*" \
    "run 'sudo bash scripts/setup.sh', or use the VM, which needs no root here (docs/vm.md)"
  say "Debian packages: installing $*"
  enabled_before=$(enabled_units)
  forbid_service_starts
  run_logged apt update ||
    say "Debian packages: the package lists could not be refreshed; trying with those on disk"
  run_logged apt install --no-install-recommends "$@" || fail \
    "the Debian packages could not be installed: is the network reachable, and on Ubuntu the 'universe' component enabled?"
  allow_service_starts
  disable_all_units_but "$enabled_before"
  done_since "Debian packages" "$started" "installed $#"
}

# --- Python ----------------------------------------------------------------------------------

suitable_python() { # PYTHON: the right version, and able to make a virtual environment
  "$1" - "$OLDEST_PYTHON" "$NEWEST_PYTHON" >/dev/null 2>&1 <<'PYTHON'
import sys
import ensurepip, venv
oldest, newest = (tuple(map(int, text.split("."))) for text in sys.argv[1:])
sys.exit(not oldest <= sys.version_info[:2] <= newest)
PYTHON
}

find_python() {
  local candidate
  for candidate in python3 python3.12 python3.11 python3.13 python3.10 /usr/bin/python3; do
    if suitable_python "$candidate"; then
      command -v "$candidate"
      return
    fi
  done
  return 1
}

# The programs of a virtual environment name its folder in their first line.
was_moved() { [ -e "$STAMP" ] && [ "$(tail -n 1 "$STAMP")" != "$(pwd -P)" ]; }

make_venv() {
  local python started
  started=$(now_ms)
  if suitable_python "$VENV/bin/python" && ! was_moved; then
    return
  fi
  python=$(find_python) ||
    fail "no Python from $OLDEST_PYTHON to $NEWEST_PYTHON with its venv module was found: install one, or use the VM (docs/vm.md)"
  run_logged "$python" -m venv --clear "$VENV" ||
    fail "the virtual environment $VENV could not be made with $python"
  done_since "virtual environment" "$started" "$VENV with $("$python" --version)"
}

wanted_stamp() {
  sha256sum <pyproject.toml
  "$VENV/bin/python" --version
  pwd -P
}

install_python_packages() {
  local started
  started=$(now_ms)
  if [ "$(cat "$STAMP" 2>/dev/null)" = "$(wanted_stamp)" ] && [ -x "$VENV/bin/atoll" ]; then
    nothing_to_do "Python packages" "as pyproject.toml asks ($("$VENV/bin/python" --version))"
    return
  fi
  say "Python packages: installing; the first time takes minutes, PyTorch is the most of it"
  rm -f "$STAMP"
  run_logged "$VENV/bin/python" -m pip install --disable-pip-version-check --no-input \
    --editable '.[dev]' || fail \
    "the Python packages could not be installed: is the package index reachable? (docs/install.md, 'Behind a proxy or an index of your own')"
  wanted_stamp >"$STAMP"
  done_since "Python packages" "$started" "installed"
}

# --- what is compiled ------------------------------------------------------------------------

# What carries packets in C: its name, the module that compiles it, what comes of that.
readonly -a COMPILED=(
  "linkd testbed.links.linkd.build testbed/links/linkd/build/linkd"
  "accelerator testbed.accelerator.build testbed/accelerator/build/accelerator"
  "endpoint workloads.innetwork.build workloads/innetwork/native/build/libatoll_endpoint.so"
)

# build NAME MODULE RESULT
build() {
  local started before
  started=$(now_ms)
  before=$(stat -c %Y%Z "$3" 2>/dev/null || true)
  # It compiles only what is older than its sources.
  run_logged "$VENV/bin/python" -m "$2" || fail "$1 could not be compiled"
  if [ "$before" = "$(stat -c %Y%Z "$3")" ]; then
    nothing_to_do "$1" "compiled"
  else
    done_since "$1" "$started" "compiled"
  fi
}

build_all() {
  local one
  for one in "${COMPILED[@]}"; do
    # shellcheck disable=SC2086  # three words
    build $one
  done
}

main() {
  case "${1-}" in
    --quiet) quiet=yes ;;
    '') ;;
    *) fail "unknown argument '$1': the only one is --quiet" ;;
  esac
  require_debian
  local started
  started=$(now_ms)
  trap leave EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  log=$(mktemp)
  install_debian_packages
  make_venv
  install_python_packages
  build_all
  [ "$quiet" = yes ] || done_since "ready" "$started" "next: make doctor, make emulate"
}

main "$@"
