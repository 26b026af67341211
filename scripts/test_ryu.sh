#!/bin/sh
# Runs the controller's tests on ryu 4.34 itself, in an environment of its own (.venv-ryu).
#
# ryu has had no release since 2019. Its setup.py needs a setuptools older than 67.7 in the build
# environment, and it needs a current eventlet, since the version it asks for elsewhere cannot be
# imported on Python 3.10 and newer. Built once (half a minute), kept until this file's list changes.
# Arguments go on to pytest.
set -eu
cd "$(dirname "$0")/.."
environment=.venv-ryu

requirements() {
    cat <<'LIST'
ryu==4.34
eventlet>=0.36,<1
dnspython>=2,<3
networkx>=3.2,<4
pyyaml>=6.0,<7
jsonschema>=4.20,<5
pydantic>=2.6,<3
flask>=3.0,<4
requests>=2.31,<3
pytest>=8.0,<10
pytest-timeout>=2.3,<3
hypothesis>=6.100,<7
LIST
}

# Setuptools that old cannot run on Python 3.12 and newer.
builds_ryu() { # PYTHON
    "$1" -c 'import ensurepip, sys; sys.exit(not (3, 8) <= sys.version_info < (3, 12))' 2>/dev/null
}

suitable_python() {
    for candidate in ${PYTHON:-python3 python3.11 python3.10}; do
        if builds_ryu "$candidate"; then
            echo "$candidate"
            return
        fi
    done
}

built() {
    [ -x "$environment/bin/python" ] && requirements | cmp -s - "$environment/requirements.txt"
}

build() {
    echo "Building $environment with ryu 4.34" >&2
    rm -rf "$environment"
    "$python" -m venv "$environment"
    echo 'setuptools<67.7' >"$environment/build-constraints.txt"
    requirements >"$environment/wanted.txt"
    PIP_CONSTRAINT="$PWD/$environment/build-constraints.txt" \
        "$environment/bin/pip" install --quiet --disable-pip-version-check \
        --requirement "$environment/wanted.txt"
    mv "$environment/wanted.txt" "$environment/requirements.txt"
}

if ! built; then
    python=$(suitable_python)
    if [ -z "$python" ]; then
        echo "test-ryu: not run: ryu 4.34 cannot be built on Python 3.12 or newer, and there is no" \
            "python3.10 or python3.11 (with its venv module) here; PYTHON=... names one" >&2
        exit 0
    fi
    build
fi
# What is decided on plain data is the same on either library, and is tested with the rest.
ATOLL_OPENFLOW_LIBRARY=ryu PYTHONWARNINGS=ignore exec "$environment/bin/python" -m pytest \
    --ignore-glob='*_in_the_pipeline.py' --ignore=tests/controller/test_fabric.py \
    --ignore=tests/controller/test_igmp.py --ignore=tests/controller/test_rollout.py \
    --ignore=tests/controller/test_trees.py tests/controller "$@"
