#!/usr/bin/env bash
# Proves the VM as its users meet it, and leaves nothing of it: builds the box, `vagrant up`, and in
# the machine the doctor, a second provision, netem held to the tolerances of links, three cities on
# kernel switches for one round; fetches the run record, judges it and destroys the machine.
#
# libvirt's daemons, its networks and pools, Vagrant's files and the machine are in namespaces of
# this test, with no way out: what is provisioned comes from the box and the checkout alone, a
# libvirt of this machine is not touched, and when the test ends, however it ends, all of it ends.
#
#   vm/test.sh            the box of build/vm, or a new one if it is older than what it is made of
#   vm/test.sh --keep     hold the machine at the end, or where a step failed, until Ctrl-C
#
# The results: build/vm/test/ (times.txt, doctor.txt, links.txt, emulate.txt, judge.txt, runs/).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly PACKAGES='dnsmasq-base iptables libvirt-clients libvirt-daemon libvirt-daemon-driver-qemu
  mmdebstrap openssh-client qemu-system-x86 qemu-utils rsync vagrant vagrant-libvirt zstd'
readonly BOX=build/vm/atoll.box
export ATOLL_VM_RESULTS=$PWD/build/vm/test
export ATOLL_VM_STATE=
started=$SECONDS

say() { printf 'vm-test: %s\n' "$*"; }

fail() {
  say "$*" >&2
  exit 1
}

# took NAME SINCE
took() {
  printf '%s %s\n' "$1" $((SECONDS - $2)) >>"$ATOLL_VM_RESULTS/times.txt"
  say "$1: $((SECONDS - $2)) s"
}

leave() { [ -z "$ATOLL_VM_STATE" ] || rm -rf --one-file-system "$ATOLL_VM_STATE"; }

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
    trap 'rm -f /usr/sbin/policy-rc.d' EXIT
  fi
  apt install -y --no-install-recommends "${missing[@]}" >/dev/null ||
    fail 'they could not be installed: this test needs Debian, and its archive'
  if [ -n "$(trap -p EXIT)" ]; then
    rm -f "$policy"
    trap - EXIT
  fi
}

# What the box is made of. Sources in C are not among it: where one is younger than its program, the
# machine compiles it, in a minute, and a box takes several.
inputs() {
  printf '%s\n' vm/{build_box,configure_box,set_up_in}.sh vm/packages.txt vm/*.lock \
    vm/box.Vagrantfile packages.debian.txt pyproject.toml
}

build_box() {
  local input
  while read -r input; do
    [ "$input" -ot "$BOX" ] || {
      say "the box is not there, or older than $input"
      setpriv --pdeathsig TERM bash vm/build_box.sh
      return
    }
  done < <(inputs)
}

choose_accelerator() {
  local unpacked
  unpacked=$(mktemp -d)
  tar --extract --file "$BOX" --directory "$unpacked" ./vmlinuz ./initrd.img
  ATOLL_VM_ACCELERATOR=$(bash vm/accelerator.sh "$unpacked/vmlinuz" "$unpacked/initrd.img")
  rm -rf "$unpacked"
  export ATOLL_VM_ACCELERATOR
}

# A way in, for whoever holds the machine: sh build/vm/test/enter.sh vagrant ssh
write_way_in() { # PROCESS, the parent of the first one inside
  local name
  {
    printf '%s ' exec nsenter --all --wd="$PWD" --target "\$(pgrep -P $1)" env
    for name in HOME DOTFILE_PATH DEFAULT_PROVIDER; do
      name=VAGRANT_$name && printf '%s=%q ' "$name" "${!name}"
    done
    for name in BOX POOL NETWORK ACCELERATOR; do
      name=ATOLL_VM_$name && printf '%s=%q ' "$name" "${!name}"
    done
    printf '"$@"\n'
  } >"$ATOLL_VM_RESULTS/enter.sh"
}

# Everything that is in those namespaces ends with the first process in them.
test_isolated() {
  local isolated status=0
  export VAGRANT_HOME=$ATOLL_VM_STATE/home VAGRANT_DOTFILE_PATH=$ATOLL_VM_STATE/dot
  export VAGRANT_DEFAULT_PROVIDER=libvirt
  export ATOLL_VM_BOX=atoll ATOLL_VM_POOL=atoll ATOLL_VM_NETWORK=atoll
  setpriv --pdeathsig KILL unshare --net --mount --pid --fork --kill-child=KILL --mount-proc \
    -- bash vm/test_isolated.sh "$@" </dev/null &
  isolated=$!
  trap 'kill -TERM $(pgrep -P '$isolated') 2>/dev/null || true' INT TERM
  write_way_in "$isolated"
  wait "$isolated" || status=$?
  while kill -0 "$isolated" 2>/dev/null; do wait "$isolated" || status=$?; done
  trap - INT TERM
  return "$status"
}

# What the test makes and is seen from outside its namespaces.
outside() {
  ip -brief link | sed -n 's/^\(virbr\|vnet\|tap\).*/&/p'
  ls -d "${TMPDIR:-/var/tmp}"/atoll-vm.* /run/libvirt/*.pid /var/lib/libvirt/images/* 2>/dev/null ||
    true
}

main() {
  [ "$(id -u)" = 0 ] || fail 'it makes namespaces of its own, which needs root: sudo make vm-test'
  rm -rf "$ATOLL_VM_RESULTS"
  mkdir -p "$ATOLL_VM_RESULTS"
  install_packages
  took packages "$started"
  local since=$SECONDS before after status=0
  build_box
  took box "$since"
  choose_accelerator
  say "accelerator: $ATOLL_VM_ACCELERATOR"
  before=$(outside)
  trap leave EXIT
  # libvirt and Vagrant write a few GB, all of it in here.
  ATOLL_VM_STATE=$(mktemp -d -p "${TMPDIR:-/var/tmp}" atoll-vm.XXXXXX)
  test_isolated "$@" || status=$?
  leave
  [ "$status" = 0 ] || exit "$status"
  after=$(outside)
  diff <(echo "$before") <(echo "$after") || fail 'something is left on this machine (>), see above'
  took all "$started"
  say "passed; nothing is left but the results in build/vm/test"
}

main "$@"
