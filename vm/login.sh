#!/usr/bin/env bash
# Makes a login to the machine one to Atoll: `vagrant ssh -c "make emulate"` is in the checkout, and
# what needs root has it. Does nothing the second time.
set -euo pipefail
readonly PROFILE=/etc/profile.d/atoll.sh
readonly CHECKOUT=${ATOLL_CHECKOUT:-/vagrant}

cat >"$PROFILE" <<PROFILE
# The machine is for Atoll alone, and Atoll makes namespaces, which needs root.
if [ "\$(id -u)" != 0 ] && [ -n "\${BASH-}" ]; then
  cd '$CHECKOUT' || return
  make() { sudo make "\$@"; }
  atoll() { sudo '$CHECKOUT/.venv/bin/atoll' "\$@"; }
fi
PROFILE
