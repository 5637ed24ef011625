#!/usr/bin/env bash
# The main job on an artefact made on the spot: compiles a small network's
# functions with the C compiler, checks the artefact and runs it.
# Usage: run_demo.sh NODEWISE
set -euo pipefail
nodewise=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/net"
cd "$work"

"${CC:-cc}" -shared -fPIC -O2 -I"$here/../../runtime/include" \
  -o net/lib.so "$here/net.c" -lm
/usr/bin/env python3 "$here/make_artefact.py" net

for command in "inspect net" "verify net" \
    "run net --inputs input.params --output out.npz"; do
  printf '\n$ nodewise %s\n' "$command"
  # shellcheck disable=SC2086
  "$nodewise" $command
done
