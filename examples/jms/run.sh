#!/bin/sh
# Builds and runs the example. BROKER_HOST and BROKER_PORT name a running broker; without BROKER_PORT
# the script starts one for the time of the example, with the command in HARELINE, written as for a
# shell, or else with that of this project. EXAMPLE_BUILD is Maven's output directory, "target" unless given.
# Progress goes to standard error.
set -eu
cd "$(dirname "$0")"
export BROKER_HOST="${BROKER_HOST:-127.0.0.1}"
build="${EXAMPLE_BUILD:-$PWD/target}"

say() {
    echo "run.sh: $*" >&2
}

for program in javac mvn; do
    if ! command -v "$program" >/dev/null; then
        say "$program is missing; the example needs a JDK (11 or newer) and Maven"
        exit 1
    fi
done

say "building with Maven; the first time it downloads 30 MB, both clients and its own plugins"
# MAVEN_ARGS is read by Maven itself from 3.9 on.
# shellcheck disable=SC2086  # several options
mvn --quiet --batch-mode ${MAVEN_ARGS:-} -Dexample.build="$build" compile dependency:build-classpath >&2

if [ -z "${BROKER_PORT:-}" ]; then
    if [ -z "${HARELINE:-}" ]; then
        make --silent -C ../.. install-broker >&2
        HARELINE=../../.venv/bin/hareline
    fi
    say "starting a broker"
    directory=$(mktemp -d)
    options="--port 0 --management-port 0 --data-dir '$directory/data'"
    eval "exec $HARELINE serve $options" >"$directory/log" 2>&1 &
    broker=$!
    trap 'kill $broker 2>/dev/null; wait $broker || true; rm -rf "$directory"' EXIT
    trap 'exit 1' INT TERM
    while [ -z "${BROKER_PORT:-}" ]; do
        if ! kill -0 $broker 2>/dev/null; then
            say "the broker did not start; it said:"
            cat "$directory/log"
            exit 1
        fi
        sleep 0.1
        BROKER_PORT=$(sed -n 's|.*listening on amqp://[^ "]*:\([0-9]*\).*|\1|p' "$directory/log")
    done
fi
export BROKER_PORT

say "running the shop and the warehouse on the broker at $BROKER_HOST:$BROKER_PORT"
java -cp "$build/classes:$(cat "$build/classpath")" orders.Main
