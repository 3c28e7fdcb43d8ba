#!/bin/sh
# Builds and runs the example. BROKER_HOST and BROKER_PORT name a broker that runs; without
# BROKER_PORT one is started for the time of the example, by the command in HARELINE or else by the
# one of this project. EXAMPLE_BUILD is where Maven puts what it makes, "target" unless given.
set -eu
cd "$(dirname "$0")"
export BROKER_HOST="${BROKER_HOST:-127.0.0.1}"
build="${EXAMPLE_BUILD:-$PWD/target}"

mvn --quiet --batch-mode -Dexample.build="$build" compile dependency:build-classpath >&2

if [ -z "${BROKER_PORT:-}" ]; then
    if [ -z "${HARELINE:-}" ]; then
        make --silent -C ../.. install
        HARELINE=../../.venv/bin/hareline
    fi
    directory=$(mktemp -d)
    # shellcheck disable=SC2086  # a command and its arguments
    $HARELINE serve --port 0 --management-port 0 --data-dir "$directory/data" >"$directory/log" 2>&1 &
    broker=$!
    trap 'kill $broker 2>/dev/null; wait $broker || true; rm -rf "$directory"' EXIT
    trap 'exit 1' INT TERM
    while [ -z "${BROKER_PORT:-}" ]; do
        if ! kill -0 $broker 2>/dev/null; then
            cat "$directory/log"
            exit 1
        fi
        sleep 0.1
        BROKER_PORT=$(sed -n 's|.*listening on amqp://[^ "]*:\([0-9]*\).*|\1|p' "$directory/log")
    done
fi
export BROKER_PORT

java -cp "$build/classes:$(cat "$build/classpath")" orders.Main
