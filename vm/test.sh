#!/usr/bin/env bash
# Proves the VM as its users meet it, and leaves nothing of it: builds the box, `vagrant up`, and in
# the machine the doctor, netem held to the tolerances of links, three cities on kernel switches for
# one round; fetches the run record, provisions a second time, destroys the machine.
#
# libvirt's daemons, its networks and pools, Vagrant's files and the machine are in namespaces of
# this test, with no way out: what is provisioned comes from the box and the checkout alone, a
# libvirt of this machine is not touched, and when the test ends, however it ends, all of it ends.
#
#   vm/test.sh            the box of build/vm, or a new one if it is older than what it is made of
#   vm/test.sh --keep     hold the machine at the end, until Ctrl-C
#
# The results: build/vm/test/ (times.txt, doctor.txt, links.txt, emulate.txt, runs/).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly PACKAGES='dnsmasq-base iptables libvirt-clients libvirt-daemon libvirt-daemon-driver-qemu
  mmdebstrap openssh-client qemu-system-x86 qemu-utils rsync vagrant vagrant-libvirt zstd'
readonly BOX=build/vm/atoll.box
export ATOLL_VM_RESULTS=$PWD/build/vm/test

say() { printf 'vm-test: %s\n' "$*"; }

fail() {
  say "$*" >&2
  exit 1
}

apt() { DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 "$@"; }

# A service is not started by being installed: the test has daemons of its own.
install_packages() {
  local missing=() package policy=/usr/sbin/policy-rc.d
  for package in $PACKAGES; do
    dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed ||
      missing+=("$package")
  done
  [ "${#missing[@]}" -gt 0 ] || return 0
  say "installing ${missing[*]}"
  apt update
  if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
    trap 'rm -f "$policy"' EXIT
  fi
  apt install -y --no-install-recommends "${missing[@]}" >/dev/null ||
    fail 'they could not be installed: this test needs Debian, and its archive'
  if [ -n "$(trap -p EXIT)" ]; then
    rm -f "$policy"
    trap - EXIT
  fi
}

build_box() {
  local input
  for input in vm/*.sh vm/*.txt vm/*.lock vm/box.Vagrantfile packages.debian.txt pyproject.toml; do
    case "$input" in vm/test*.sh | vm/accelerator.sh | vm/login.sh) continue ;; esac
    [ "$input" -ot "$BOX" ] || {
      say "the box is not there, or older than $input"
      bash vm/build_box.sh
      return
    }
  done
}

choose_accelerator() {
  local unpacked
  unpacked=$(mktemp -d)
  tar --extract --file "$BOX" --directory "$unpacked" ./vmlinuz ./initrd.img
  ATOLL_VM_ACCELERATOR=$(bash vm/accelerator.sh "$unpacked/vmlinuz" "$unpacked/initrd.img")
  rm -rf "$unpacked"
  export ATOLL_VM_ACCELERATOR
}

main() {
  [ "$(id -u)" = 0 ] || fail 'it makes namespaces of its own, which needs root: sudo make vm-test'
  rm -rf "$ATOLL_VM_RESULTS"
  mkdir -p "$ATOLL_VM_RESULTS"
  local started=$SECONDS
  install_packages
  printf 'packages %s\n' $((SECONDS - started)) >>"$ATOLL_VM_RESULTS/times.txt"
  started=$SECONDS
  build_box
  printf 'box %s\n' $((SECONDS - started)) >>"$ATOLL_VM_RESULTS/times.txt"
  choose_accelerator
  say "accelerator: $ATOLL_VM_ACCELERATOR"
  exec setpriv --pdeathsig KILL unshare --net --mount --pid --fork --kill-child=KILL --mount-proc \
    -- bash vm/test_isolated.sh "$@"
}

main "$@"
