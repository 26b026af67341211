#!/usr/bin/env bash
# Prints which driver of libvirt to use: "kvm" where this machine lends its processor to a guest,
# else "qemu", which emulates one in software. That /dev/kvm can be opened does not say: inside other
# virtual machines it often can, and no kernel comes up. So one is booted until it starts a process.
#
#   vm/accelerator.sh KERNEL INITIAL_FILE_SYSTEM
set -euo pipefail

readonly KERNEL=$1 INITRD=$2
readonly LIMIT_S=20 MARK='Run /init as init process'

boots_with_kvm() {
  [ -w /dev/kvm ] || return 1
  local console qemu found=1
  console=$(mktemp)
  qemu-system-x86_64 -accel kvm -cpu host -m 512 -display none -no-reboot -nic none \
    -serial "file:$console" -kernel "$KERNEL" -initrd "$INITRD" \
    -append 'console=ttyS0 panic=-1' </dev/null >/dev/null 2>&1 &
  qemu=$!
  for _ in $(seq $((LIMIT_S * 5))); do
    if grep -q "$MARK" "$console"; then
      found=0
      break
    fi
    kill -0 "$qemu" 2>/dev/null || break
    sleep 0.2
  done
  kill "$qemu" 2>/dev/null || true
  wait "$qemu" 2>/dev/null || true
  rm -f "$console"
  return "$found"
}

if boots_with_kvm; then echo kvm; else echo qemu; fi
