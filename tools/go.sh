#!/bin/sh
# Runs a command with Go 1.19 or later first on PATH: the one that is there, else the newest in the places where distributions
# and go.dev's archive put it (GO_PLACES names others). Without a command it prints that folder. Exit code 3: there is none.
set -eu

OLDEST=19
# Unquoted where it is used: each pattern gives the folders that match it.
PLACES=${GO_PLACES:-"/usr/local/go/bin /usr/lib/go/bin /usr/lib/go-*/bin /snap/go/current/bin ${HOME:-/nowhere}/sdk/go*/bin
    /opt/homebrew/bin"}

release() { # N of the Go 1.N in folder $1; nothing when there is none
    [ -x "$1/go" ] || return 0
    GOTOOLCHAIN=local "$1/go" version 2>/dev/null | sed -n 's/^go version go1\.\([0-9]*\).*/\1/p'
}

best=$(dirname "$(command -v go || echo /nowhere/go)")
newest=$(release "$best")
if [ "${newest:-0}" -lt "$OLDEST" ]; then
    newest=$((OLDEST - 1))
    best=
    for bin in $PLACES; do
        found=$(release "$bin")
        if [ "${found:-0}" -gt "$newest" ]; then
            newest=$found
            best=$bin
        fi
    done
fi
if [ -z "$best" ]; then
    echo "no Go 1.$OLDEST or later: install it (Debian: golang-go), or put its folder on PATH" >&2
    exit 3
fi
if [ $# -eq 0 ]; then
    echo "$best"
else
    PATH="$best:$PATH" exec "$@"
fi
