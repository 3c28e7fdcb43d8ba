#!/usr/bin/env bash
# gate.sh: run .ci/run on what is committed, as CI does: in a clean clone, with CI=true and no standard
# input. HOGS=2 runs it beside two processes that compute all the time. A green run notes its commit and
# seconds in .cache/gate.json; the whole output is in .cache/gate.log. Called by `make gate`.
set -euo pipefail
cd "$(dirname "$0")/.."

hogs=${HOGS:-0}
commit=$(git rev-parse HEAD)
if [ -n "$(git status --porcelain)" ]; then
    echo "gate: what is not committed is not tried" >&2
fi
clone=$(mktemp -d)
running=()
trap 'kill "${running[@]}" 2>/dev/null || true; rm -rf "$clone"' EXIT
git clone --quiet . "$clone/hareline"
for _ in $(seq "$hogs"); do
    (while :; do :; done) &
    running+=($!)
done

mkdir -p .cache
begin=$SECONDS
status=0
(cd "$clone/hareline" && CI=true bash .ci/run) </dev/null >.cache/gate.log 2>&1 || status=$?
took=$((SECONDS - begin))
tail -n 25 .cache/gate.log
echo "gate: status $status after $took s on ${commit:0:12}; the whole output is in .cache/gate.log"
if [ "$status" = 0 ]; then
    printf '{"commit": "%s", "seconds": %d, "hogs": %d}\n' "$commit" "$took" "$hogs" >.cache/gate.json
fi
exit "$status"
