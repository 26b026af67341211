#!/bin/sh
# Test on Debian's own kernel, in a virtual machine, what this machine's kernel may lack:
#   1. three cities on Open vSwitch's datapath in the kernel and links of netem, every pair reached;
#   2. netem held to the tolerances of links.
#
# The machine is emulated in software, so that it runs wherever this does, and boots this very file
# system, read-only, in seconds. An emulated processor is slower by a factor of about twenty and its
# timers are late by milliseconds: ATOLL_TIMING_SLACK widens the bounds that are times, and rates
# that such a processor cannot fill are left out. What is asked of order, loss, counts and the queue
# stays as it is. linkd, which needs nothing of the kernel that is not everywhere, is left out.
#
#   scripts/test_kernel.sh           both, with the programs that do them in every emulation: minutes
#   scripts/test_kernel.sh --short   what those programs have the kernel do (netem's commands, the
#                                    messages to switches), without Python in the machine: a minute.
#
# The short test is for every machine, so it needs nothing and may take no longer than its limits: it
# ends with 77, and a line that says why, where it could not be tried (no root, no Debian, no package
# index, no time). It fails when the kernel refuses what it is told, does something else, or dies.
set -eu

ROOT=$(cd "$(dirname "$0")/.." && pwd)
BUILD="$ROOT/build/test-kernel"
SLACK=${ATOLL_TIMING_SLACK:-10}
LIMIT_S=${TEST_KERNEL_LIMIT_S:-1200}
VIRTME='virtme-ng>=1.42,<2'
PACKAGES='qemu-system-x86 busybox-static kmod'
MODULES='sch_netem sch_htb sch_ingress act_police cls_u32 act_mirred veth bridge tun af_packet openvswitch'
SHORT_LIMIT_S=${TEST_KERNEL_SHORT_LIMIT_S:-240}
FETCH_LIMIT_S=${TEST_KERNEL_FETCH_LIMIT_S:-120}
TESTS=${TESTS:-tests/testbed/test_kernel_datapath.py tests/links/test_tolerance.py}

say() { printf 'test-kernel: %s\n' "$*"; }

fail() {
    say "$*" >&2
    exit 1
}

apt() { DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=60 "$@"; }

missing_packages() {
    for package in $PACKAGES; do
        dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed ||
            printf '%s\n' "$package"
    done
}

# What is fetched may be given up at any moment, which an installation must not be.
download_packages() {
    missing=$(missing_packages)
    [ -n "$missing" ] || return 0
    # shellcheck disable=SC2086  # one word a package
    set -- install -y --no-install-recommends $missing
    apt --download-only "$@" >/dev/null 2>&1 && return
    apt update
    apt --download-only "$@" >/dev/null
}

install_packages() {
    missing=$(missing_packages)
    [ -n "$missing" ] || return 0
    # shellcheck disable=SC2086  # one word a package
    say installing $missing
    # shellcheck disable=SC2086
    apt install -y --no-install-recommends $missing >/dev/null
}

kernel_package() {
    apt-cache depends linux-image-amd64 2>/dev/null | sed -n 's/.*Depends: //p' | head -1
}

# The kernel package is unpacked, not installed: nothing of it is for this machine.
fetch_kernel() {
    [ -d "$BUILD/kernel" ] && return
    name=$(kernel_package)
    [ -n "$name" ] || apt update
    name=$(kernel_package)
    [ -n "$name" ] || fail 'no package linux-image-amd64: this test needs Debian, for its kernel'
    say "fetching $name"
    rm -rf "$BUILD/fetched" && mkdir -p "$BUILD/fetched"
    (cd "$BUILD/fetched" && apt download "$name" 2>/dev/null)
    dpkg-deb -x "$BUILD/fetched/$name"_*.deb "$BUILD/fetched/kernel"
    depmod -b "$BUILD/fetched/kernel" "$(ls "$BUILD/fetched/kernel/lib/modules")"
    mv "$BUILD/fetched/kernel" "$BUILD/kernel"
    rm -rf "$BUILD/fetched"
}

fetch_virtme() {
    [ -e "$BUILD/venv/complete" ] && return
    say 'fetching virtme-ng'
    "$ROOT/.venv/bin/python" -m venv --clear "$BUILD/venv"
    "$BUILD/venv/bin/pip" install -qq --disable-pip-version-check "$VIRTME"
    touch "$BUILD/venv/complete"
}

# The guest sees this file system through 9p, which asks the host anew for every look-up: Python
# would need minutes to import. So it is mounted once more with a cache, and tests run in there.
# /tmp is the guest's own; a checkout below it is put back.
write_guest_script() {
    rm -rf "$BUILD/out" && mkdir -p "$BUILD/out"
    cat >"$BUILD/out/guest.sh" <<GUEST
dmesg -n 1
tag=\$(sed -n 's,^\([^ ]*\) /mnt 9p .*,\1,p' /proc/mounts)
umount /mnt
mount -t 9p -o "ro,trans=virtio,version=9p2000.L,msize=512000,cache=loose" "\$tag" /mnt
ln -sfn "/mnt$BUILD/kernel/lib/modules/\$(uname -r)" "/lib/modules/\$(uname -r)"
modprobe -a $MODULES
for folder in proc sys dev run; do mount --rbind "/\$folder" "/mnt/\$folder"; done
mkdir /run/checkout
mount --bind '/mnt$ROOT' /run/checkout
mount -t tmpfs tmpfs /mnt/tmp
[ -d '/mnt$ROOT' ] || mkdir -p '/mnt$ROOT'
mount --bind /run/checkout '/mnt$ROOT'
ATOLL_TIMING_SLACK=$SLACK unshare --mount sh '$BUILD/out/inside.sh' >'$BUILD/out/pytest.txt' 2>&1
echo \$? >'$BUILD/out/status'
dmesg | grep -i 'netem\|police\|htb\|non-work-conserving\|quantum\|BUG\|WARNING' >'$BUILD/out/kernel.txt'
GUEST
    # Not chroot alone: who enters a mount namespace, as mnexec does, is at the root of that.
    cat >"$BUILD/out/inside.sh" <<INSIDE
cd /mnt && pivot_root . mnt && cd '$ROOT' && exec .venv/bin/python -m pytest -q \\
    -p no:cacheprovider --timeout=900 --durations=4 -k 'not linkd' $TESTS
INSIDE
}

# What is carried out in the short test is written, and judged, by this machine.
write_short_guest_script() {
    rm -rf "$BUILD/out" && mkdir -p "$BUILD/out/plan"
    (cd "$ROOT" && .venv/bin/python -m tests.vm.short_kernel write "$BUILD/out/plan")
    cat >"$BUILD/out/guest.sh" <<GUEST
touch '$BUILD/out/booted'
dmesg -n 1
ln -sfn "/mnt$BUILD/kernel/lib/modules/\$(uname -r)" "/lib/modules/\$(uname -r)"
modprobe -a $MODULES
cp -r '$BUILD/out/plan' /run/plan && cd /run/plan
sh -x carry_out.sh >'$BUILD/out/errors.txt' 2>&1
status=\$?
cp -r said '$BUILD/out/'
echo \$status >'$BUILD/out/status'
GUEST
}

# virtme-ng wants a terminal on its standard output, and leaves its machine behind when it is ended:
# in a namespace of processes, nothing is left.
boot() { # LIMIT_S MEMORY
    say "booting $(basename "$BUILD"/kernel/boot/vmlinuz-*) and testing in it, for $1 s at most"
    boot_status=0
    PATH="$BUILD/venv/bin:$PATH" setpriv --pdeathsig KILL \
        unshare --pid --fork --kill-child=KILL --mount-proc timeout -k 5 "$1" \
        script -qec "vng --disable-kvm -r '$(echo "$BUILD"/kernel/boot/vmlinuz-*)' \
        --cpus 2 --memory $2 --user root --verbose --append mitigations=off --append tsc=reliable \
        --rwdir '$BUILD/out' --rodir /mnt=/ --exec 'sh $BUILD/out/guest.sh'" /dev/null \
        </dev/null >"$BUILD/console.txt" 2>&1 || boot_status=$?
}

# timeout ends with 124, or with 137 when it had to kill.
took_too_long() { [ "$boot_status" = 124 ] || [ "$boot_status" = 137 ]; }

report() {
    if [ ! -f "$BUILD/out/status" ]; then
        tail -5 "$BUILD/console.txt"
        say "the machine did not finish; its console is $BUILD/console.txt"
        exit 1
    fi
    cat "$BUILD/out/pytest.txt"
    if grep -q "SKIPPED.*\(netem does not work\|is not in this kernel\)" "$BUILD/out/pytest.txt"; then
        say 'what was to be tested did not work in the machine, so nothing was proved'
        exit 1
    fi
    if grep -q 'BUG\|WARNING\|non-work-conserving\|quantum' "$BUILD/out/kernel.txt"; then
        cat "$BUILD/out/kernel.txt"
        say 'the kernel complained'
        exit 1
    fi
    exit "$(cat "$BUILD/out/status")"
}

untried() {
    say "not tried: $*"
    exit 77
}

explain_short() {
    tail -3 "$BUILD/console.txt" "$BUILD/out/errors.txt" 2>/dev/null || true
    if took_too_long; then
        untried "the machine was not done after $SHORT_LIMIT_S s; its console is $BUILD/console.txt"
    fi
    [ -e "$BUILD/out/booted" ] ||
        untried "the machine did not boot; its console is $BUILD/console.txt"
    fail "the machine died in the middle; its console is $BUILD/console.txt"
}

report_short() {
    [ -e "$BUILD/out/status" ] || explain_short
    if [ "$(cat "$BUILD/out/status")" != 0 ]; then
        tail -5 "$BUILD/out/errors.txt"
        fail 'the kernel, or a program on it, refused what it was told'
    fi
    (cd "$ROOT" && .venv/bin/python -m tests.vm.short_kernel judge "$BUILD/out")
}

within_limit() { timeout -k 5 "$FETCH_LIMIT_S" sh "$ROOT/scripts/test_kernel.sh" --only "$1"; }

# Each step may find that this is no place for it.
short() {
    [ "$(id -u)" = 0 ] || untried 'only root can boot a machine from this file system'
    command -v apt-get >/dev/null || untried 'it takes its kernel from Debian'
    mkdir -p "$BUILD"
    exec 9>"$BUILD/lock"
    flock -w "$SHORT_LIMIT_S" 9 || untried 'another such test is running'
    within_limit download_packages && (install_packages) ||
        untried "these could not be installed: $PACKAGES"
    within_limit fetch_kernel || untried 'no Debian kernel could be had'
    within_limit fetch_virtme || untried 'virtme-ng could not be had'
    write_short_guest_script
    boot "$SHORT_LIMIT_S" 1G
    report_short
}

whole() {
    [ "$(id -u)" = 0 ] || fail 'the machine runs as root: sudo make test-kernel'
    mkdir -p "$BUILD"
    exec 9>"$BUILD/lock"
    flock 9
    download_packages
    install_packages
    fetch_kernel
    fetch_virtme
    (cd "$ROOT" && .venv/bin/python -m testbed.links.linkd.build >/dev/null) # the guest cannot write
    write_guest_script
    boot "$LIMIT_S" 3G
    report
}

case "${1-}" in
    --short) short ;;
    --only) "$2" ;;
    '') whole ;;
    *) fail "unknown argument '$1': the only one is --short" ;;
esac
