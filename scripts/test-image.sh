#!/usr/bin/env bash
# Loads an OCI image of make dist into a store of its own by podman, and runs it.
#
#   scripts/test-image.sh FILE
set -euo pipefail
image=$1
work=$(mktemp -d)
store=(--root "$work/root" --runroot "$work/run" --tmpdir "$work/tmp" --storage-driver vfs --cgroup-manager cgroupfs)
ours() { podman "${store[@]}" "$@"; }
trap 'ours rmi --all --force >/dev/null; rm -rf --one-file-system "$work"' EXIT

loaded=$(ours load --quiet --input "$image" | sed -n 's/^Loaded image: *//p')
[ -n "$loaded" ] || {
	echo "test-image: podman loaded no image from $image" >&2
	exit 1
}
# Without network and limits: no engine's service, rule or cgroup is needed.
run() { ours run --rm --network none --runtime runc --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 "$loaded" "$@"; }
run version | tee "$work/said"
grep -q "guest sha256:" "$work/said"
run studies >"$work/said"
grep -q survey "$work/said"
echo "test-image: $loaded runs"
