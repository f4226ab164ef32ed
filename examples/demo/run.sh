#!/bin/sh
# run.sh DIR: the demo. A fresh repository in DIR, the job on it, and what there is to see afterwards.
set -eu
DEMO=$(cd "$(dirname "$0")" && pwd)
export DEMO
sh "$DEMO/make-repo.sh" "$1"
cd "$1"
status=0
job-run "$DEMO/job.yaml" --job demo || status=$?
echo
echo "job-run ended with status $status (3: what conflicted is back as it was, the rest landed)."
echo
git log --oneline --stat -1
test "$status" -eq 3
