#!/usr/bin/env bash
# Writes anew every document that is made from the code, so that none is kept right by hand:
#   topologies/topology.schema.json   the published JSON Schema of topology files
#   docs/cli.md                       the reference of the atoll command
#   docs/pictures/<topology>.svg      a map of each bundled topology
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly BIN=.venv/bin

"$BIN/python" -m topologies.schema
"$BIN/typer" testbed.cli utils docs --name atoll --title 'The atoll command' --output docs/cli.md

mkdir -p docs/pictures
"$BIN/python" -c 'from topologies.files import available; print(*available(), sep="\n")' |
  while read -r topology; do
    "$BIN/python" -m topologies.picture "$topology" "docs/pictures/$topology.svg"
  done

echo "docs: topologies/topology.schema.json, docs/cli.md, docs/pictures/"
