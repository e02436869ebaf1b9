# The guest's own dockerd takes the image that was built for this machine on another one,
# which lies on the second disk as it is, and runs it. Its architecture is $1.
set -eu
dockerd >/results/dockerd.log 2>&1 &
daemon=$!
tries=0
until docker version >/results/docker-version 2>&1; do
	tries=$((tries + 1))
	if [ "$tries" -gt 120 ] || ! kill -0 "$daemon"; then
		echo "dockerd does not answer: $(tail -n 5 /results/dockerd.log)" >&2
		exit 1
	fi
	sleep 1
done
docker load </dev/vdb
echo "base: $(docker run --rm "tare-base:$1" sh -c '. /etc/os-release && echo "$PRETTY_NAME" on "$(uname -m)"')"
docker run --rm "tare-workbench:$1" tare-index 0.1 1
kill "$daemon"
wait "$daemon" || true
