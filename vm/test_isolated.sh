#!/usr/bin/env bash
# The part of vm/test.sh that is inside its namespaces; not to be started by itself.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly RESULTS=$ATOLL_VM_RESULTS
readonly BOX=$PWD/build/vm/atoll.box
# libvirt and Vagrant write a few GB, all of it in here.
STATE=$(mktemp -d -p "${TMPDIR:-/var/tmp}" atoll-vm.XXXXXX)
readonly STATE
export VAGRANT_HOME=$STATE/home VAGRANT_DOTFILE_PATH=$STATE/dot VAGRANT_DEFAULT_PROVIDER=libvirt
export ATOLL_VM_BOX=atoll ATOLL_VM_POOL=atoll ATOLL_VM_NETWORK=atoll
if [ "$ATOLL_VM_ACCELERATOR" = kvm ]; then
  readonly SLACK=2
else
  # An emulated processor is twenty times slower, and its timers late by milliseconds.
  readonly SLACK=${ATOLL_TIMING_SLACK:-10}
  export ATOLL_VM_MEMORY_MIB=${ATOLL_VM_MEMORY_MIB:-4096}
fi
machine_is_up=no

say() { printf 'vm-test: %s\n' "$*"; }

fail() {
  say "$*" >&2
  exit 1
}

# step NAME COMMAND...: its output goes to NAME.txt, its last lines are shown if it fails.
step() {
  local name=$1 started=$SECONDS status
  shift
  # Not as a condition: a shell does not stop at errors within one.
  set +e
  (
    set -e
    "$@"
  ) >"$RESULTS/$name.txt" 2>&1 </dev/null
  status=$?
  set -e
  printf '%s %s\n' "$name" $((SECONDS - started)) >>"$RESULTS/times.txt"
  if [ "$status" != 0 ]; then
    tr '\r' '\n' <"$RESULTS/$name.txt" | grep -v 'Progress:' | tail -n 25
    fail "$name failed ($status) after $((SECONDS - started)) s: $RESULTS/$name.txt"
  fi
  say "$name: $((SECONDS - started)) s"
}

leave() {
  if [ "$machine_is_up" = yes ]; then vagrant destroy --force >/dev/null 2>&1 || true; fi
  # What is mounted from in here goes with the namespace; its files do not.
  rm -rf "$STATE"
}

# libvirt's own folders are this machine's: in here they are others.
hide() { # FOLDER
  mkdir -p "$STATE/hidden$1" "$1"
  mount --bind "$STATE/hidden$1" "$1"
}

start_libvirt() {
  ip link set lo up
  mount --make-rprivate /
  mount -t tmpfs tmpfs /run
  cp -a /etc/libvirt "$STATE/etc"
  hide /var/lib/libvirt
  hide /var/cache/libvirt
  hide /etc/libvirt
  cp -a "$STATE/etc/." /etc/libvirt/
  rm -rf /etc/libvirt/qemu/networks/* /etc/libvirt/storage/*
  mkdir -p /run/lock /var/lib/libvirt/{images,qemu,boot,dnsmasq,network}
  # There are no users, labels or groups of processes in here to keep apart.
  printf '%s\n' 'user = "root"' 'group = "root"' 'security_driver = "none"' \
    'cgroup_controllers = []' 'namespaces = []' 'remember_owner = 0' >/etc/libvirt/qemu.conf
  virtlogd --daemon
  libvirtd --daemon
  for _ in $(seq 100); do
    virsh --quiet list >/dev/null 2>&1 && break
    sleep 0.2
  done
  mkdir "$STATE/pool"
  virsh --quiet pool-define-as --name atoll --type dir --target "$STATE/pool"
  virsh --quiet pool-start atoll
}

in_machine() { vagrant ssh -c "$1"; }

up() {
  vagrant box add --name atoll "$BOX"
  vagrant up
}

doctor() {
  in_machine 'make doctor; uname -r; lsmod | grep -e sch_netem -e openvswitch'
  grep -q '^sch_netem' "$RESULTS/doctor.txt" && grep -q '^openvswitch ' "$RESULTS/doctor.txt" &&
    grep -q 'forward in the kernel, links are shaped by netem' "$RESULTS/doctor.txt"
}

# netem draws anew each time: of three intervals of 99 %, one is missed once in 33 such suites.
links() {
  in_machine "sudo env ATOLL_TIMING_SLACK=$SLACK .venv/bin/python -m pytest -q --timeout=900 \
    --reruns 1 -p no:cacheprovider -k 'not linkd' tests/links/test_tolerance.py"
  if grep -q 'SKIPPED.*netem does not work' "$RESULTS/links.txt"; then return 1; fi
}

# The rates are those that an emulated processor can send at.
emulate() {
  local status=0
  in_machine 'atoll emulate three_city --rounds 1 --local-steps 1 --links netem --datapath kernel \
    --rate-scale 0.001 --no-calibrate' || status=$?
  [ "$status" -le 1 ]
}

fetch_runs() {
  vagrant ssh-config >"$STATE/ssh"
  ssh -F "$STATE/ssh" default 'sudo tar --create --directory /vagrant runs' |
    tar --extract --directory "$RESULTS"
}

# A slow machine makes a run invalid, and rightly: nothing else may.
judge_run() {
  .venv/bin/python - "$RESULTS"/runs/*/summary.json <<'PYTHON'
import json, sys
summary = json.load(open(sys.argv[1]))
others = [r for r in summary["reasons"] if r not in summary["machine_reasons"]]
print("round trips of pairs:", summary["round_trips"]["pairs"], "reasons:", summary["reasons"])
sys.exit(bool(others or summary["round_trips"]["unreachable"] or not summary["rounds"]))
PYTHON
}

destroy() {
  vagrant destroy --force
  virsh vol-list atoll | awk 'NR > 2 && $1 { print $1 }' |
    xargs -r -n 1 virsh vol-delete --pool atoll
  vagrant box remove --force atoll
  virsh net-destroy atoll
  virsh net-undefine atoll
  virsh pool-destroy atoll
  virsh pool-undefine atoll
}

nothing_is_left() {
  local left
  left=$(virsh list --all --name; virsh net-list --all --name; virsh pool-list --all --name
    pgrep -a qemu-system || true)
  echo "$left"
  [ -z "${left//[[:space:]]/}" ]
}

main() {
  trap leave EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  step libvirt start_libvirt
  machine_is_up=yes
  step up up
  step doctor doctor
  step provision vagrant provision
  step links links
  step emulate emulate
  step fetch fetch_runs
  step judge judge_run
  if [ "${1-}" = --keep ]; then
    say "held until Ctrl-C; a shell in it: nsenter --all --target $$ env VAGRANT_HOME=$VAGRANT_HOME ..."
    sleep infinity
  fi
  step destroy destroy
  machine_is_up=no
  step left nothing_is_left
  say "all of it in $((SECONDS)) s; the results are in ${RESULTS#"$PWD/"}"
}

main "$@"
