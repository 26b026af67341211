#!/usr/bin/env bash
# Makes a libvirt box for Atoll from Debian's packages alone, for where no catalogue of boxes can be
# reached, or none is to be trusted:
#   1. a bare Debian with the packages of vm/packages.txt, in the versions of vm/packages.lock,
#   2. scripts/setup.sh run in it as `vagrant up` runs it in a machine, with the Python packages in
#      the versions of vm/python.lock: an emulated processor would take half an hour for that,
#   3. an ext4 image of it, compressed, with the kernel beside it for a direct boot.
# Prints size and SHA-256, and what the archive did not have any more in the version asked for.
#
#   vm/build_box.sh             as pinned; a version that is gone is replaced, and named
#   vm/build_box.sh --locked    as pinned, or not at all
#   vm/build_box.sh --update    as the archive is today; writes both lists of versions anew
#   vm/build_box.sh --bare      without step 2
#
# ATOLL_VM_MIRROR: another archive than Debian's own, such as a snapshot of the day of the lists.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly SUITE=bookworm
readonly IMAGE_GIB=5 DISK_GIB=16
readonly CHECKOUT=/vagrant
readonly OUT=build/vm
readonly UUID=61746f6c-6c00-4000-8000-000000000001
# What a machine for Atoll never reads: documentation, drivers of hardware that no hypervisor
# offers, and the test programs and headers of PyTorch (140 MB).
readonly -a LEFT_OUT=(
  '/usr/share/doc/*' '/usr/share/man/*' '/usr/share/info/*' '/usr/share/locale/*'
  '/lib/modules/*/kernel/sound/*' '/lib/modules/*/kernel/drivers/gpu/*'
  '/lib/modules/*/kernel/drivers/media/*' '/lib/modules/*/kernel/drivers/infiniband/*'
  '/lib/modules/*/kernel/drivers/net/wireless/*' '/lib/modules/*/kernel/drivers/staging/*'
)
readonly -a LEFT_OUT_OF_TORCH=(test include 'bin/*test*' 'bin/*_bench*')
# What the set-up makes in a checkout, and Vagrant leaves alone when it brings the checkout in.
readonly -a MADE=(
  .venv testbed/links/linkd/build testbed/accelerator/build workloads/innetwork/native/build
)

mode=pinned
content=ready
work=

say() { printf 'box: %s\n' "$*"; }

fail() {
  printf 'box: %s\n' "$@" >&2
  exit 1
}

leave() { rm -rf --one-file-system "$work"; }

listed() { sed -e 's/#.*//' -e 's/[[:space:]]//g' -e '/^$/d' "$1"; }

read_options() {
  local option
  for option; do
    case "$option" in
      --locked) mode=locked ;;
      --update) mode=update ;;
      --bare) content=bare ;;
      *) fail "unknown argument '$option': --locked, --update or --bare" ;;
    esac
  done
  [ "$(id -u)" = 0 ] || fail 'a file system of root is made by root: sudo vm/build_box.sh'
}

# Every file bears one date, that of the lists: what was made when says nothing of the content.
set_the_date() {
  SOURCE_DATE_EPOCH=$(sed -n 's/^# date: //p' vm/packages.lock 2>/dev/null || true)
  if [ "$mode" = update ] || [ -z "$SOURCE_DATE_EPOCH" ]; then SOURCE_DATE_EPOCH=$(date +%s); fi
  export SOURCE_DATE_EPOCH
}

# apt then takes the newest of what the archive does not have in the version asked for.
write_pins() {
  : >"$work/pins"
  [ "$mode" != update ] || return 0
  listed vm/packages.lock | while IFS='=' read -r name version; do
    printf 'Package: %s\nPin: version %s\nPin-Priority: 1001\n\n' "$name" "$version"
  done >>"$work/pins"
}

vagrant_key() {
  local folder
  for folder in /usr/share/rubygems-integration/all/gems/vagrant-*/keys \
    /opt/vagrant/embedded/gems/gems/vagrant-*/keys; do
    [ ! -e "$folder/vagrant.pub" ] || { echo "$folder/vagrant.pub"; return; }
  done
  fail 'the public key of Vagrant was not found: apt-get install vagrant'
}

make_system() {
  local -a left_out=()
  local pattern key
  for pattern in "${LEFT_OUT[@]}"; do left_out+=(--dpkgopt="path-exclude=$pattern"); done
  key=$(vagrant_key)
  cp "$key" "$work/vagrant.pub"
  # shellcheck disable=SC2016  # mmdebstrap's shell fills in $1, the folder
  mmdebstrap --quiet --variant=minbase --mode=root --format=directory --components=main \
    "${left_out[@]}" --dpkgopt='path-include=/usr/share/doc/*/copyright' \
    --setup-hook="install -D -m 644 '$work/pins' \"\$1/etc/apt/preferences.d/pins\"" \
    --include="$(listed vm/packages.txt | paste -sd,)" \
    --customize-hook="copy-in '$work/vagrant.pub' vm/configure_box.sh /tmp" \
    --customize-hook='chroot "$1" sh /tmp/configure_box.sh /tmp/vagrant.pub' \
    --customize-hook='rm "$1/tmp/vagrant.pub" "$1/tmp/configure_box.sh"' \
    "$SUITE" "$work/system" ${ATOLL_VM_MIRROR:+"$ATOLL_VM_MIRROR"} >"$work/log" 2>&1 ||
    { tail -n 15 "$work/log" >&2; fail 'the bare Debian could not be made'; }
}

set_up() {
  mkdir -p "$work/system$CHECKOUT"
  git ls-files -z | rsync -a --from0 --files-from=- --ignore-missing-args . "$work/system$CHECKOUT/"
  ATOLL_VM_MODE=$mode unshare --mount --propagation private bash vm/set_up_in.sh "$work/system" "$CHECKOUT" 2>&1 | sed 's/^/box:   /'
  local packages pattern
  packages=$(echo "$work/system$CHECKOUT"/.venv/lib/python3*/site-packages)
  for pattern in "${LEFT_OUT_OF_TORCH[@]}"; do
    # shellcheck disable=SC2086  # patterns
    rm -rf "$packages/torch"/$pattern
  done
  keep_what_was_made
}

keep_what_was_made() {
  local path
  for path in "${MADE[@]}"; do
    mkdir -p "$work/made/$(dirname "$path")"
    mv "$work/system$CHECKOUT/$path" "$work/made/$path"
  done
  rm -rf "$work/system$CHECKOUT"
  mv "$work/made" "$work/system$CHECKOUT"
}

# What differs from one building to the next, and what a machine makes of its own at first boot.
forget() {
  rm -rf "$work/system"/var/lib/apt/lists/* "$work/system"/var/cache/apt/* "$work/system"/var/log/* \
    "$work/system/etc/apt/preferences.d/pins" "$work/system/var/cache/ldconfig/aux-cache" \
    "$work/system"/var/lib/dpkg/*-old "$work/system"/etc/*- "$work/system/etc/openvswitch"/*.db* \
    "$work/system/var/lib/systemd/random-seed"
  mkdir -p "$work/system/var/log/journal" "$work/system/var/cache/apt/archives/partial"
  : >"$work/system/etc/machine-id"
  : >"$work/system/etc/resolv.conf"
}

# But for compiled programs, which are made anew when they are older than their sources.
date_files() {
  find "$work/system" -path "$work/system$CHECKOUT/*/build/*" -prune -o -newermt "@$SOURCE_DATE_EPOCH" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
}

# Python's compiled files name the date of their source.
compile_python() {
  [ -d "$work/system$CHECKOUT/.venv" ] || return 0
  find "$work/system$CHECKOUT/.venv" -name __pycache__ -type d -prune -exec rm -rf {} +
  env -u SOURCE_DATE_EPOCH chroot "$work/system" "$CHECKOUT/.venv/bin/python" -m compileall -q -j 2 \
    "$CHECKOUT/.venv/lib" >/dev/null || true # a package may bring a file for another Python
}

installed_packages() {
  # shellcheck disable=SC2016  # dpkg-query fills these in itself
  chroot "$work/system" dpkg-query -W -f='${Package}=${Version}\n' | LC_ALL=C sort
}

# Builds of one version for different processors differ in what follows the plus sign.
installed_wheels() {
  chroot "$work/system" "$CHECKOUT/.venv/bin/python" -m pip freeze --exclude-editable |
    sed 's/+.*//' | LC_ALL=C sort
}

write_lists() {
  installed_packages >"$work/packages"
  if [ "$mode" = update ]; then
    { echo "# What vm/build_box.sh --update found; the date that every file in the box bears:"
      echo "# date: $SOURCE_DATE_EPOCH"; cat "$work/packages"; } >vm/packages.lock
  fi
  [ "$content" = ready ] || return 0
  installed_wheels >"$work/wheels"
  [ "$mode" != update ] || cp "$work/wheels" vm/python.lock
}

# diff's own marks: < was asked for, > is in the box.
compare() { # LIST INSTALLED
  local difference
  difference=$(listed "$1" | LC_ALL=C diff - "$2" | grep '^[<>]' || true)
  [ -n "$difference" ] || return 0
  say "other versions than $1 asks for (<):"
  printf '%s\n' "$difference" | sed 's/^/box:   /'
  [ "$mode" != locked ] || fail 'so there is no box: --update takes the versions of today'
}

compare_lists() {
  [ "$content" != ready ] || compare vm/packages.lock "$work/packages"
  [ "$content" != ready ] || compare vm/python.lock "$work/wheels"
}

# Without what was compiled from the checkout: it changes with that.
content_sum() {
  tar --create --directory "$work/system" --exclude='./vagrant/*/build' --sort=name \
    --numeric-owner --format=posix \
    --pax-option=delete=atime,delete=ctime . | sha256sum | cut -d' ' -f1
}

# A compressed cluster is unpacked whole whenever a part of it is read: 256 KiB is small enough.
make_image() {
  cp "$work/system"/boot/vmlinuz-* "$work/box/vmlinuz"
  cp "$work/system"/boot/initrd.img-* "$work/box/initrd.img"
  E2FSPROGS_FAKE_TIME=$SOURCE_DATE_EPOCH mke2fs -q -t ext4 -d "$work/system" -U "$UUID" -L atoll \
    -O '^orphan_file,^metadata_csum_seed' -E "lazy_itable_init=0,hash_seed=$UUID" \
    "$work/image" "${IMAGE_GIB}G"
  qemu-img convert -q -O qcow2 -c -o compression_type=zstd,cluster_size=256k \
    "$work/image" "$work/box/box.img"
  qemu-img resize -q "$work/box/box.img" "${DISK_GIB}G"
}

pack() {
  printf '{"provider": "libvirt", "format": "qcow2", "virtual_size": %s}\n' "$DISK_GIB" \
    >"$work/box/metadata.json"
  cp vm/box.Vagrantfile "$work/box/Vagrantfile"
  mkdir -p "$OUT"
  tar --create --directory "$work/box" --sort=name --owner=0 --group=0 \
    --mtime="@$SOURCE_DATE_EPOCH" --file "$OUT/atoll.box" .
}

tell() { # STARTED
  say "$OUT/atoll.box: $(du --apparent-size -BM "$OUT/atoll.box" | cut -f1 | tr -d M) MiB," \
    "$(wc -l <"$work/packages") Debian packages, made in $((SECONDS - $1)) s"
  say "sha256 of the content: $(cat "$work/content")"
  say "sha256 of the box:     $(sha256sum "$OUT/atoll.box" | cut -d' ' -f1)"
}

make_box() {
  local started=$SECONDS
  mkdir "$work/box"
  write_pins
  say "a bare Debian ($SUITE)"
  make_system
  if [ "$content" = ready ]; then
    say "the set-up in it"
    set_up
  fi
  write_lists
  compare_lists
  forget
  date_files
  compile_python
  date_files
  content_sum >"$work/content"
  say "an image of it"
  make_image
  pack
  tell "$started"
}

# What is mounted on the way (devices of this machine among it) is so in a namespace alone, and what
# runs in there ends with it: nothing is removed through a mount that was forgotten.
main() {
  read_options "$@"
  set_the_date
  if [ -n "${ATOLL_BOX_WORK-}" ]; then
    work=$ATOLL_BOX_WORK
    make_box
    return
  fi
  trap leave EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  work=$(mktemp -d -p "${TMPDIR:-/var/tmp}" atoll-box.XXXXXX)
  chmod 755 "$work"
  ATOLL_BOX_WORK=$work setpriv --pdeathsig KILL \
    unshare --mount --propagation private --pid --fork --kill-child=KILL --mount-proc \
    -- bash vm/build_box.sh "$@" </dev/null &
  wait $!
}

main "$@"
