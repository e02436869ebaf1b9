#!/bin/sh
# load SECONDS: three containers of this machine's Docker for so long. Prints which
# containers they are, what each uses every second as tare watch reads it, and when
# each piece of the package work began and ended, by this machine's clock.
# TARE_IMAGE is the image, TARE_TOOL is tare, TARE_FLAGS are docker run's.
set -e
seconds=$1
all=
work=$(mktemp -d)
end() {
	[ -z "$all" ] || docker rm -f $all >"$work/removed" 2>&1 || cat "$work/removed" >&2
	rm -rf "$work"
}
trap end EXIT
trap 'exit 1' INT TERM

# run NAME SCRIPT: the script in a container of its own.
run() {
	id=$(docker run -d $TARE_FLAGS -e PEER="$peer" "$TARE_IMAGE" /bin/busybox sh -c "$2")
	all="$all $id"
	echo "container $1 $id"
}

# Package work from local files: a package is read from the disk, unpacked, checked,
# built anew and written back; a pause. A page and the package are served.
package='
mkdir /www
tar -czf /www/package.tgz -C / bin/busybox .tare
echo fine >/www/status
httpd -p 80 -h /www
while :; do
	read -r began rest </proc/uptime
	mkdir /new
	dd if=/www/package.tgz iflag=direct bs=64k 2>/dev/null | tar -xzf - -C /new
	find /new -type f -exec sync {} + # as package managers do
	find /new -type f -exec sha256sum {} + >/sums
	tar -czf - -C /new . | dd of=/built.tgz bs=64k conv=fsync 2>/dev/null
	rm -r /new
	read -r ended rest </proc/uptime
	echo "task $began $ended"
	sleep 5
done'
# A monitoring agent that is idle in between: the machine and the page, each second.
agent='
while :; do
	cat /proc/stat /proc/meminfo /proc/loadavg >/sample
	printf "GET /status HTTP/1.0\r\n\r\n" | nc -w 5 "$PEER" 80 >/page
	sleep 1
done'
# One that starts late: it fetches the package, checks it, and is idle.
late='
printf "GET /package.tgz HTTP/1.0\r\n\r\n" | nc -w 30 "$PEER" 80 >/fetched
sha256sum /fetched >/sum
while :; do
	cat /proc/loadavg >/sample
	sleep 5
done'

peer=
run package "$package"
worker=$id
peer=$(docker inspect -f '{{.NetworkSettings.Networks.bridge.IPAddress}}' "$worker")
run agent "$agent"
"$TARE_TOOL" watch --json --interval 1s --for "${seconds}s" >"$work/series" &
watch=$!
sleep $((seconds / 3))
run late "$late"
wait $watch
cat "$work/series"
docker logs "$worker"
