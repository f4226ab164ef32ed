#!/bin/sh
# make-repo.sh DIR: a fresh repository in DIR with the demo's tree, committed on main.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$1"
mkdir -p "$1"
cp -R "$here/tree/." "$1"
cd "$1"
git init --quiet --initial-branch=main
git config user.name Demo
git config user.email demo@example.invalid
git add --all
git commit --quiet --message "A made-up shop"
