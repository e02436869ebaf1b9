#!/bin/sh
# proof: does a kernel do what container hosts need of it? Runs in the guest as
# root, once the engine is up. Of each check it prints one line, its fields apart by
# tabs: its name, "ok" or what went wrong, and the uptime before and after it.
# Set before it: journal, to print first what the boot was like, for tare boot
# profile; quick, to leave out the checks that take longest; first, to end at the
# first one that fails.
if [ -n "$journal" ]; then
	# What is loaded by now stands in the journal as well, one line: a kernel without
	# modules has no such file.
	echo "loaded: $(cut -d ' ' -f 1 /proc/modules 2>/dev/null | tr '\n' ' ')" | systemd-cat -t tare-modules
	journalctl --sync
	journalctl -b -o json --output-fields=MESSAGE,_TRANSPORT,SYSLOG_IDENTIFIER,UNIT,_SOURCE_MONOTONIC_TIMESTAMP
fi
echo '-- proof --'
image=tare/workbench:latest
work=$(mktemp -d)
exec 3>&1 >>"$work/said" 2>&1

# check NAME COMMAND...: it must succeed.
check() {
	name=$1
	shift
	: >"$work/said"
	result=ok
	read -r began _ </proc/uptime
	"$@" || result="failed: $(tail -n 3 "$work/said" | tr '\n\t' '  ')"
	read -r ended _ </proc/uptime
	printf '%s\t%s\t%s\t%s\n' "$name" "$result" "$began" "$ended" >&3
	[ "$result" = ok ] || [ -z "$first" ] || exit 1
}

# long: a check that a quick proof does without.
long() { [ -n "$quick" ] || check "$@"; }

run() { docker run --rm "$@"; }

# outside: a server in a network namespace that knows no way to the bridge's
# addresses, so that only a masqueraded packet gets an answer.
outside() {
	ip netns add outside && ip link add out0 type veth peer name out1 && ip link set out1 netns outside &&
		ip addr add 10.99.0.1/24 dev out0 && ip link set out0 up &&
		ip netns exec outside ip addr add 10.99.0.2/24 dev out1 && ip netns exec outside ip link set out1 up || return 1
	mkdir -p "$work/www" && echo masqueraded >"$work/www/page" && ip netns exec outside busybox httpd -p 80 -h "$work/www"
}

# page asks for one by HTTP: busybox's own client crashes where it is static.
page='printf "GET /page HTTP/1.0\r\n\r\n" | /bin/busybox nc -w 20'

address() { run "$image" /bin/busybox ip -4 addr show eth0 | grep 'inet 172\.'; }
masquerade() { outside && run "$image" /bin/busybox sh -c "$page 10.99.0.2 80" | grep masqueraded; }
port() {
	docker run -d --rm --name served -p 8080:80 "$image" /bin/busybox sh -c 'mkdir /www; echo published >/www/page; exec /bin/busybox httpd -f -p 80 -h /www' || return 1
	got=1
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		if ip netns exec outside sh -c "$page 10.99.0.1 8080" | grep published; then
			got=0
			break
		fi
		sleep 0.5
	done
	docker kill served
	return $got
}
overlay() { [ "$(docker info -f '{{.Driver}}')" = overlay2 ] && run "$image" /bin/busybox sh -c 'echo a >/written && [ "$(cat /written)" = a ]'; }
memory() {
	run --memory 16m --memory-swap 16m "$image" /bin/busybox tail /dev/zero
	[ $? = 137 ]
}
# used_up works until its CPU limit holds it, which a fast CPU takes a while for.
used_up='i=0; until grep -q "nr_throttled [1-9]" /sys/fs/cgroup/cpu.stat; do i=$((i+1)); [ $i -lt 10000 ] || exit 11; done'
throttled() { run --cpus 0.1 "$image" /bin/busybox sh -c "$used_up"; }
pids() {
	! run --pids-limit 6 "$image" /bin/busybox sh -c 'for i in 1 2 3 4 5 6 7 8 9; do sleep 2 & done; wait' && grep -q "can't fork" "$work/said"
}
refused() {
	echo '{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["mkdir","mkdirat"],"action":"SCMP_ACT_ERRNO"}]}' >"$work/deny.json"
	! run --security-opt seccomp="$work/deny.json" "$image" /bin/busybox mkdir /made && grep -q 'not permitted' "$work/said" &&
		run "$image" /bin/busybox grep 'Seccomp:.*2' /proc/self/status
}
built() {
	printf 'FROM %s\nRUN ["/bin/busybox", "touch", "/first"]\nRUN ["/bin/busybox", "test", "-f", "/first"]\n' "$image" >"$work/Dockerfile"
	docker build -q -t two-steps "$work" && run two-steps /bin/busybox test -f /first
}
# many: so many run at the same time. Ten clients start them, because as many
# clients would fill a small machine's memory, which is no fault of its kernel's.
many() {
	seq "$1" | xargs -P 10 -I '{}' docker run -d --name 'many{}' "$image" /bin/busybox sleep 3600 >/dev/null
	running=$(docker ps -q --filter name=many | wc -l)
	docker ps -aq --filter name=many | xargs -P 10 -n 5 docker rm -f >/dev/null
	echo "$running of $1 were running at once"
	[ "$running" = "$1" ]
}
# The other ways to start a container: that one runs, and that limits hold it.
root=/var/lib/tare/rootfs
runtime() { "$1" run --bundle /usr/lib/tare proof; }
nerd_true() { ctr run --rm --rootfs $root proof /bin/busybox true; }
pod() { podman run --rm --network=none "$@"; }

# held shows from within a container that each limit holds: 0.1 CPUs, 16 MiB, 6 tasks.
held="$used_up"'
/bin/busybox tail /dev/zero
[ $? = 137 ] || exit 12
(for i in 1 2 3 4 5 6 7 8 9; do sleep 2 & done; wait) && exit 13
exit 0'
runtime_held() {
	mkdir -p "$work/held" && sed -e 's|"args":\["/bin/busybox","true"\]|"args":["/bin/busybox","sh","/held"]|' \
		-e 's|"resources":{|&"memory":{"limit":16777216},"pids":{"limit":6},"cpu":{"quota":10000,"period":100000},|' /usr/lib/tare/config.json >"$work/held/config.json" &&
		echo "$held" >$root/held && "$1" run --bundle "$work/held" held
}
nerd_held() {
	ctr run --rm --memory-limit 16777216 --rootfs $root held /bin/busybox tail /dev/zero
	[ $? = 137 ] && ctr run --rm --seccomp --rootfs $root confined /bin/busybox grep 'Seccomp:.*2' /proc/self/status
}
pod_held() {
	pod --memory 16m --memory-swap 16m --cpus 0.1 --pids-limit 6 --rootfs $root:O /bin/busybox sh -c "$held" &&
		pod --rootfs $root:O /bin/busybox grep 'Seccomp:.*2' /proc/self/status
}

check 'docker run' run "$image" /bin/busybox true
check 'bridge and address' address
check 'masqueraded packet' masquerade
check 'published port' port
check 'overlay2 write' overlay
check 'memory limit kills' memory
long 'CPU limit throttles' throttled
check 'pids limit' pids
check 'seccomp refuses' refused
long 'build of two steps' built
long '50 containers at once' many 50
check 'crun' runtime crun
check 'crun limits' runtime_held crun
check 'runc' runtime runc
check 'runc limits' runtime_held runc
check 'containerd' nerd_true
check 'containerd limits' nerd_held
check 'podman' pod --rootfs $root:O /bin/busybox true
check 'podman limits' pod_held
