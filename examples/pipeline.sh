#!/bin/sh
# pipeline.sh DIR: the demo's job again, by hand, with the small commands. Lands the same tree as job-run does.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
DEMO=$here/demo
export DEMO
sh "$DEMO/make-repo.sh" "$1"
cd "$1"
base=$(git rev-parse main)
KTX_JOB=demo
export KTX_JOB

# Open, work, collect: in any order, at the same time if you like. The order of opening is the unit order.
for script in "$DEMO"/units/*.sh; do
  key=$(basename "$script" .sh | cut -c 4-)
  options=
  test "$key" = outside && options=--sl-disallowed
  worktree-open --quiet --job demo --unit "$key" --base "$base" --target main --connection shop --source demo \
    --allow 'wiki/**' --allow 'semantic-layer/**' $options >/dev/null
done
for child in .ktx/worktrees/demo/*; do
  (
    cd "$child"
    key=$(basename "$child" | cut -c 6-)
    if (set -e; . "$DEMO"/units/[0-9][0-9]-"$key".sh) >/dev/null 2>&1; then
      patch-collect --quiet >/dev/null || echo "$key: patch-collect ended with status $?"
    else
      worktree-close --quiet --outcome crash >/dev/null
      echo "$key: failed"
    fi
  )
done

# Integrate in unit order: each patch is accepted whole, or set aside with its evidence.
for child in .ktx/worktrees/demo/*; do
  key=$(basename "$child" | cut -c 6-)
  test "$key" = breaks && continue
  status=0
  patch-apply --quiet --unit "$key" >/dev/null || status=$?
  echo "$key: patch-apply ended with status $status"
done

gate-check --tree refs/ktx/jobs/demo/integration --changed-since main
job-land --message "Demo: what passed every gate
"
job-report
