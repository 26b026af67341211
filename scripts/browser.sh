#!/bin/sh
# Installs a browser for the tests of reports, where Debian's own Chromium can be had (as root);
# where it cannot, says so and leaves those tests to skip themselves. Ubuntu's is a snap, which
# needs a running snapd.
set -eu

command -v chromium >/dev/null && exit 0
. /etc/os-release
if [ "${ID:-}" != debian ] || [ "$(id -u)" != 0 ]; then
  echo "browser: no chromium here; the tests that look at reports in a browser are skipped"
  exit 0
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if DEBIAN_FRONTEND=noninteractive apt-get --quiet --assume-yes --no-install-recommends \
  -o DPkg::Lock::Timeout=300 install chromium >"$log" 2>&1; then
  echo "browser: chromium installed, for the tests of reports"
else
  echo "browser: chromium could not be installed; the tests that need it are skipped:"
  tail -n 3 "$log"
fi
