#!/bin/sh
# has_java.sh VERSION: exit status 0 if the Java that Spark would run is of at least this version.
#
# That is the one of JAVA_HOME if it is set, otherwise the one on PATH. The Makefile asks before it
# fetches Spark.
set -eu

wanted=$1
java=${JAVA_HOME:+$JAVA_HOME/bin/}java
command -v "$java" >/dev/null 2>&1 || exit 1
# 'openjdk version "17.0.15" 2025-04-15'; before version 9 '"1.8.0_312"', before a release '"25-ea"'.
major=$("$java" -version 2>&1 | sed -n 's/.* version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1)
[ "${major:-0}" -ge "$wanted" ]
