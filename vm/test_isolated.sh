#!/usr/bin/env bash
# The part of vm/test.sh that is inside its namespaces; not to be started by itself.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly RESULTS=$ATOLL_VM_RESULTS STATE=$ATOLL_VM_STATE
readonly BOX=$PWD/build/vm/atoll.box
if [ "$ATOLL_VM_ACCELERATOR" = kvm ]; then
  readonly SLACK=2
else
  # An emulated processor is twenty times slower, and its timers late by milliseconds.
  readonly SLACK=${ATOLL_TIMING_SLACK:-10}
  export ATOLL_VM_MEMORY_MIB=${ATOLL_VM_MEMORY_MIB:-4096}
fi
keep=no

say() { printf 'vm-test: %s\n' "$*"; }

fail() {
  say "$*" >&2
  hold
  exit 1
}

hold() {
  [ "$keep" = yes ] || return 0
  say "held until Ctrl-C; in it: sh build/vm/test/enter.sh vagrant ssh"
  sleep infinity &
  wait $!
}

# step NAME LIMIT_S COMMAND...: its output goes to NAME.txt, its last lines are shown if it fails.
step() {
  local name=$1 limit_s=$2 started=$SECONDS status=0 runs
  shift 2
  # Not as a condition: a shell does not stop at errors within one.
  (
    set -e
    "$@"
  ) >"$RESULTS/$name.txt" 2>&1 </dev/null &
  runs=$!
  while kill -0 "$runs" 2>/dev/null && [ $((SECONDS - started)) -lt "$limit_s" ]; do sleep 0.2; done
  if kill -0 "$runs" 2>/dev/null; then
    status="no end after $limit_s s"
  else
    wait "$runs" || status=$?
  fi
  printf '%s %s\n' "$name" $((SECONDS - started)) >>"$RESULTS/times.txt"
  if [ "$status" != 0 ]; then
    tr '\r' '\n' <"$RESULTS/$name.txt" | grep -v 'Progress:' | tail -n 25
    fail "$name failed ($status) after $((SECONDS - started)) s: $RESULTS/$name.txt"
  fi
  say "$name: $((SECONDS - started)) s"
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

# Where time is loose each test has three attempts (tests/conftest.py): netem draws anew each time, and
# an emulated processor pauses when it likes. All on one of them: what one has handed over while it
# pauses, a second overtakes, so that frames change places which netem had kept in order.
links() {
  in_machine "sudo env ATOLL_TIMING_SLACK=$SLACK taskset --cpu-list 0 \
    .venv/bin/python -m pytest -q --timeout=900 \
    -p no:cacheprovider -k 'not linkd' tests/links/test_tolerance.py"
  if grep -q 'SKIPPED.*netem does not work' "$RESULTS/links.txt"; then return 1; fi
}

# Links are not calibrated: an emulated processor's timers are later than they may be. Nor has
# anything real-time priority, which would keep such a processor from the kernel's own work.
emulate_once() {
  in_machine 'cd /vagrant && sudo rm -rf runs && sudo .venv/bin/atoll run vm/three_city.yaml \
    --links netem --datapath kernel --no-calibrate --no-realtime; test -e runs/latest/summary.json'
}

# A run that is invalid has a summary, and is judged; one that broke off has none. That may be this
# machine's fault, which had no time for the other one, so it is tried twice.
emulate() {
  emulate_once || {
    echo 'it broke off; once more'
    emulate_once
  }
}

fetch_runs() {
  vagrant ssh-config >"$STATE/ssh"
  ssh -F "$STATE/ssh" default 'sudo tar --create --directory /vagrant runs' |
    tar --extract --directory "$RESULTS"
}

judge_run() { .venv/bin/python -m tests.vm.run_judge "$RESULTS/runs/latest"; }

# Vagrant removes the machine, its disk and its network; what it put into the pool is left to us.
destroy() {
  vagrant destroy --force
  virsh vol-list atoll | awk 'NR > 2 && $1 { print $1 }' |
    xargs -r -n 1 virsh vol-delete --pool atoll
  vagrant box remove --force atoll
  virsh pool-destroy atoll
  virsh pool-undefine atoll
}

nothing_is_left() {
  local left
  left=$(virsh list --all --name; virsh net-list --all --name; virsh pool-list --all --name
    pgrep -a qemu-system || true; find "$STATE/pool" "$VAGRANT_HOME/boxes" -mindepth 1)
  echo "$left"
  [ -z "${left//[[:space:]]/}" ]
}

main() {
  [ "${1-}" != --keep ] || keep=yes
  trap 'exit 130' INT
  trap 'exit 143' TERM
  step libvirt 60 start_libvirt
  step up 1200 up
  step doctor 300 doctor
  step provision 300 vagrant provision
  step links 600 links
  step emulate 900 emulate
  step fetch 120 fetch_runs
  step judge 60 judge_run
  cat "$RESULTS/judge.txt"
  hold
  step destroy 180 destroy
  step left 60 nothing_is_left
}

main "$@"
