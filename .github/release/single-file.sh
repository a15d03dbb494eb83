#!/usr/bin/env bash
# Packs a wheel of etcompile and all that it needs into one executable file, for this machine's
# platform and for each of these Pythons, one of which whoever runs it must have:
#     single-file.sh WHEEL FILE PYTHON...
# pex (https://docs.pex-tool.org) must be on the PATH.
set -euo pipefail

wheel=$1 file=$2
shift 2
targets=()
for python in "$@"; do
  targets+=(--python "$python")
done

mkdir -p "$(dirname "$file")"
# The first run unpacks it into a virtual environment in ~/.cache/pex. From then on the shell at the
# head of the file starts that one's Python at once, without opening the archive again.
pex "$wheel[sops]" --script etcompile --venv prepend --sh-boot "${targets[@]}" --output-file "$file"
