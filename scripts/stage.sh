#!/usr/bin/env bash
# Runs one stage of make test within its time, and says how long it took.
#
#   scripts/stage.sh NAME LIMIT COMMAND...    LIMIT as timeout(1) takes it: 25m
#
# A stage that does not end in time is ended with all that it has started, and
# fails with exit code 124. Ctrl-C ends it too.
set -uo pipefail
name=$1 limit=$2
shift 2
began=$SECONDS
timeout --kill-after=60s "$limit" "$@" &
stage=$!
# timeout passes it on to the stage's whole process group, to which a terminal's
# own signals do not go.
trap 'kill -TERM "$stage" 2>/dev/null' INT TERM HUP
wait "$stage"
code=$?
while kill -0 "$stage" 2>/dev/null; do # a signal had ended the waiting
	wait "$stage"
	code=$?
done
took=$(printf '%d min %02d s' $(((SECONDS - began) / 60)) $(((SECONDS - began) % 60)))
case $code in
0) echo "stage $name: done in $took (at most $limit)" ;;
124 | 137) echo "stage $name: ended after $took, for it may take $limit" >&2 ;;
*) echo "stage $name: failed with exit code $code after $took" >&2 ;;
esac
exit "$code"
