#!/bin/sh
# The Java worker with the kit's types, as `make java` built it. Becomes the worker, so that signals reach it.
set -eu

built=$(cd "$(dirname "$0")/../../../../workers/java" && pwd)
home=$(sh "$built/../../tools/java.sh")
exec "$home/bin/java" -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xmx256m \
    -cp "$built/conformance/target/classes:$built/worker/target/classes:$built/worker/target/lib/*" \
    io.taskyard.worker.Main
