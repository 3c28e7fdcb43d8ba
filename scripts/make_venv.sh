#!/bin/sh
# make_venv.sh DIRECTORY [EXTRAS [WHEEL]]: a virtual environment there, with this package in it, and
# what its extras ("dev" or "dev,spark") name, pinned in requirements/. What is there already stays.
# The package is the source tree itself, so that changes take effect at once; or a wheel, in place of
# one that is there.
#
# The Makefile runs it. It looks for a Python of at least 3.11 (or takes the one that $PYTHON names).
# Debian and Ubuntu ship Python without ensurepip: root gets the missing package installed, anyone
# else is told its name. What it is doing goes to standard error.
set -eu

directory=$1
extras=${2:-}
wheel=${3:-}
cd "$(dirname "$0")/.."

is_usable() {
    command -v "$1" >/dev/null 2>&1 &&
        "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
    for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
        if is_usable "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    echo "make: no Python 3.11 or newer among: ${PYTHON:-python3 python3.13 python3.12 python3.11}" >&2
    echo "Install one, or name one: make run PYTHON=/path/to/python3" >&2
    exit 1
}

can_make_environments() {
    "$1" -m ensurepip --version >/dev/null 2>&1 && "$1" -c 'import venv' >/dev/null 2>&1
}

provide_ensurepip() {
    package=$("$1" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then
        echo "Installing $package, which $1 needs to make environments" >&2
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package"
    fi
    if ! can_make_environments "$1"; then
        echo "make: $1 cannot make virtual environments (the module ensurepip is missing)." >&2
        echo "On Debian and Ubuntu: sudo apt-get install $package" >&2
        exit 1
    fi
}

python=$(find_python)
can_make_environments "$python" || provide_ensurepip "$python"

# What was begun with another Python, or broken off, is begun anew.
if ! "$directory/bin/python" -m pip --version >/dev/null 2>&1; then
    echo "Making $directory with $("$python" --version) ($(command -v "$python"))" >&2
    "$python" -m venv --clear "$directory"
fi

# Turns pip's output into a line for each step; returns pip's status, which is its last line. What
# pip says on standard error is not touched.
show_steps() {
    while read -r word rest; do
        case "$word $rest" in
            "Installing build dependencies: started") echo "  getting what the build needs" ;;
            "Collecting "*) rest=${rest%% *} && echo "  getting ${rest%%[][<>=~!;@]*}" ;;
            "Building wheel for "*started) echo "  building ${rest#wheel for }" | sed 's/ (.*//' ;;
            "Building editable "*started) echo "  building hareline" ;;
            "Installing collected packages: "*) echo "  unpacking them all" ;;
            "status "*) return "$rest" ;;
        esac
    done
}

case $extras in
    "") what="Hareline and what running it needs" ;;
    *spark*) what="Hareline, what developing it needs and Spark (some 450 MB)" ;;
    *) what="Hareline and what developing it needs" ;;
esac
echo "Installing $what into $directory" >&2
if [ -n "$wheel" ]; then
    "$directory/bin/python" -m pip uninstall --quiet --yes hareline >&2
fi
install() {
    "$directory/bin/python" -m pip install --disable-pip-version-check --progress-bar off "$@"
}
{
    status=0
    case $extras in
        dev | dev,spark)
            # What comes as source is built with what is pinned too.
            isolation=--no-build-isolation
            install --require-hashes -r requirements/build.txt &&
                install --require-hashes "$isolation" -r requirements/dev.txt \
                    $([ "$extras" = dev ] || echo -r requirements/spark.txt) || status=$?
            extras=
            ;;
    esac
    [ "$status" != 0 ] || install ${isolation:-} $([ -n "$wheel" ] || echo --editable) \
        "${wheel:-.}${extras:+[$extras]}" || status=$?
    echo "status $status"
} | show_steps >&2
