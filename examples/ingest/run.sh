#!/bin/sh
# run.sh DIR: from three Metabase cards to landed pages and sources in a fresh repository in DIR, and again: nothing to do.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$1"
git init --quiet --initial-branch=main "$1"
cd "$1"
ingest() { ingest-run metabase "$here/metabase" --connection shop -- python3 "$here/worker.py"; }
ingest
gate-check --all
ingest
git log --oneline --stat
ledger-query provenance cards/1.json
