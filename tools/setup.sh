#!/bin/sh
# Makes .venv with exactly what requirements.lock names, then the workspace's members as editable packages.
# Uses uv when there is one (seconds), pip otherwise; both check the hashes.
# usage: tools/setup.sh PYTHON MEMBER...
set -eu

python=$1
shift
if [ -z "$python" ]; then
    echo "Taskyard needs Python 3.11 or newer and found none on PATH." >&2
    echo "Install one, or name it: make PYTHON=/path/to/python setup" >&2
    exit 1
fi

members=
for member in "$@"; do
    members="$members -e ./$member"
done

venv_python=.venv/bin/python
if ! "$venv_python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "setting up .venv with $("$python" --version); the first time this takes one to several minutes" >&2
    if command -v uv >/dev/null; then
        uv venv --quiet --clear --python "$python" .venv
    else
        "$python" -m venv --clear .venv
    fi
fi

if command -v uv >/dev/null; then
    install="uv pip install --quiet --python $venv_python"
else
    "$venv_python" -m pip --version >/dev/null 2>&1 || "$venv_python" -m ensurepip >/dev/null
    install="$venv_python -m pip install --quiet --disable-pip-version-check"
fi

# Hatchling is in the lock, so that building the members fetches nothing that is not.
$install --require-hashes -r requirements.lock
# shellcheck disable=SC2086 # a list of words is meant
$install --no-deps --no-build-isolation $members
