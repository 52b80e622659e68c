#!/bin/sh
# Runs a command with JAVA_HOME set to a JDK of release 21 or later: the one that JAVA_HOME names, else the newest in the
# places where distributions put them. Without a command it prints that folder. Exit code 3: there is none.
set -eu

OLDEST=21

release() { # the release of the JDK in folder $1; nothing when there is none
    [ -x "$1/bin/javac" ] || return 0
    "$1/bin/javac" -version 2>&1 | sed -n 's/^javac \([0-9]*\).*/\1/p'
}

best=${JAVA_HOME:-}
newest=$(release "$best")
if [ "${newest:-0}" -lt "$OLDEST" ]; then
    newest=$((OLDEST - 1))
    best=
    for home in /usr/lib/jvm/* /usr/java/* /opt/java/* "${HOME:-/nowhere}"/.sdkman/candidates/java/* \
        /Library/Java/JavaVirtualMachines/*/Contents/Home; do
        found=$(release "$home")
        if [ "${found:-0}" -gt "$newest" ]; then
            newest=$found
            best=$home
        fi
    done
fi
if [ -z "$best" ]; then
    echo "no JDK of release $OLDEST or later: install one, or name it with JAVA_HOME=/path/to/jdk" >&2
    exit 3
fi
if [ $# -eq 0 ]; then
    echo "$best"
else
    JAVA_HOME=$best PATH="$best/bin:$PATH" exec "$@"
fi
