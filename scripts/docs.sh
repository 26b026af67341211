#!/usr/bin/env bash
# Writes anew every document that is made from the code, so that none is kept right by hand:
#   topologies/topology.schema.json   the published JSON Schema of topology files
#   schedules/plan.schema.json        that of plans
#   docs/cli.md                       the reference of the atoll command
#   docs/nine_city.svg, .png          the nine cities on a map
#   docs/nine_city_plan.png           a plan of rotating cliques on it
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly BIN=.venv/bin

"$BIN/python" -m topologies.schema
"$BIN/python" -m schedules.schema
"$BIN/typer" testbed.cli utils docs --name atoll --title 'The atoll command' --output docs/cli.md

for picture in docs/nine_city.svg docs/nine_city.png; do
  "$BIN/python" -m topologies.picture nine_city "$picture"
done

"$BIN/atoll" plan nine_city --capability multicast --collective multicast --objective mean \
  --plot docs/nine_city_plan.png >/dev/null

echo "docs: both schemas, docs/cli.md, and the pictures of the nine cities"
