#!/usr/bin/env bash
# Runs scripts/setup.sh in a file system that is still a folder, as it runs in a machine later.
# Started by build_box.sh in a mount namespace of its own, so that what is mounted here ends with it.
# What pip is told of on this machine (indexes, folders of wheels, certificates) holds inside too.
#
#   vm/set_up_in.sh ROOT CHECKOUT
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly ROOT=$1 CHECKOUT=$2
readonly BORROWED=/run/borrowed
pip_settings=()

mount_system() {
  mount -t proc proc "$ROOT/proc"
  mount -t sysfs -o ro sys "$ROOT/sys"
  mount --rbind /dev "$ROOT/dev"
  mount -t tmpfs tmpfs "$ROOT/run"
  mount -t tmpfs tmpfs "$ROOT/tmp"
  mkdir "$ROOT$BORROWED"
  touch "$ROOT/etc/resolv.conf"
  mount --bind /etc/resolv.conf "$ROOT/etc/resolv.conf"
}

# Makes a file or folder of this machine readable inside; prints nothing.
borrow() { # PATH
  if [ -d "$1" ]; then mkdir -p "$ROOT$BORROWED$1"; else
    mkdir -p "$ROOT$BORROWED$(dirname "$1")"
    touch "$ROOT$BORROWED$1"
  fi
  mount --bind "$(readlink -f "$1")" "$ROOT$BORROWED$1"
}

# Of an index of files the folder above is borrowed, as its pages point beside it.
inside() { # WORD of a setting: the same as it is found inside
  local path=${1#file://}
  case "$1" in
    file:///*) borrow "$(dirname "$path")" && echo "file://$BORROWED$path" ;;
    /*) borrow "$path" && echo "$BORROWED$path" ;;
    *) echo "$1" ;;
  esac
}

# Lines as `global.find-links='/wheels'`; what the environment sets comes last, and counts.
read_pip_settings() {
  local key value word words
  while IFS='=' read -r key value; do
    key=${key##*.}
    case "$key" in index-url | extra-index-url | find-links | cert | trusted-host | default-timeout) ;; *) continue ;; esac
    value=${value#\'} value=${value%\'}
    words=
    for word in $value; do words+=" $(inside "$word")"; done
    key=${key^^}
    pip_settings+=("PIP_${key//-/_}=${words# }")
  done < <(.venv/bin/python -m pip config list)
}

mount_system
read_pip_settings
if [ -e vm/python.lock ] && [ "${ATOLL_VM_MODE-}" != update ]; then
  pip_settings+=("PIP_CONSTRAINT=$CHECKOUT/vm/python.lock")
fi
# Compiling is left for later, when every file bears the one date.
env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
  PIP_NO_CACHE_DIR=1 PIP_NO_COMPILE=1 "${pip_settings[@]}" \
  chroot "$ROOT" bash "$CHECKOUT/scripts/setup.sh"
