#!/usr/bin/env bash
# Puts the etcompile of this checkout on the job's PATH, unless one is there already: a runner that
# brings its own needs no network.
set -euo pipefail

if command -v etcompile >/dev/null; then
  etcompile --version
  exit 0
fi

python=
for name in python3 python3.14 python3.13 python3.12 python3.11 python; do
  if "$name" -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    python=$name
    break
  fi
done
if [ -z "$python" ]; then
  echo "::error title=etcompile::no Python from 3.11 on; run actions/setup-python before"
  exit 1
fi

home="$RUNNER_TEMP/etcompile"
"$python" -m venv "$home"
"$home/bin/python" -m pip install --quiet --disable-pip-version-check "$GITHUB_ACTION_PATH[sops]"
"$home/bin/etcompile" --version
echo "$home/bin" >>"$GITHUB_PATH"
