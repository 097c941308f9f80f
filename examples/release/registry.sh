#!/usr/bin/env bash
# Stands for a package registry: `registry.sh publish FILE`, `registry.sh remove FILE`. What it holds lies in registry/.
# As long as there is a file registry/full, publishing breaks off half-way, as the real thing sometimes does.
set -euo pipefail
name=$(basename "$2")
case "$1" in
  publish)
    cp "$2" "registry/$name"
    if [ -e registry/full ]; then
      echo "registry: no room in the index" >&2
      exit 1
    fi
    echo "$name" >> registry/index.txt
    ;;
  remove)
    rm -f "registry/$name"
    grep -vFx "$name" registry/index.txt > registry/index.new || true
    mv registry/index.new registry/index.txt
    ;;
esac
