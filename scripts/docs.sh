#!/usr/bin/env bash
# Writes anew every document that is made from the code, so that none is kept right by hand:
#   topologies/topology.schema.json   the published JSON Schema of topology files
#   docs/cli.md                       the reference of the atoll command
#   docs/nine_city.svg, .png          the nine cities on a map
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly BIN=.venv/bin

"$BIN/python" -m topologies.schema
"$BIN/typer" testbed.cli utils docs --name atoll --title 'The atoll command' --output docs/cli.md

for picture in docs/nine_city.svg docs/nine_city.png; do
  "$BIN/python" -m topologies.picture nine_city "$picture"
done

echo "docs: topologies/topology.schema.json, docs/cli.md, docs/nine_city.svg and .png"
