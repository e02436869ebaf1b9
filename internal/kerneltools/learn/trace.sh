# trace: what of the kernel does a command use? Runs in a container host as root, once
# its engine is up, or in a machine of the user's. Prints sections, each after a line "@@ NAME".
# Set before it: images, archives below $files that the engine loads first; traced, empty
# for a run without a trace; workload, a function.
files=/run/tare-files
work=$(mktemp -d)
t=/sys/kernel/tracing
lacks=

section() { echo "@@ $1"; }
fail() {
	section failed
	echo "$*"
	exit 120
}
# on FILE TEXT: has a file of tracefs take a text; a kernel that does not is told of.
on() { { echo "$2" >>"$t/$1"; } 2>/dev/null || lacks="$lacks $1"; }
# counting [:pause] begins to count system calls, or ends that: a count heeds no tracing_on.
counting() {
	counted raw_syscalls/sys_enter id,common_pid.execname "32768$1"
	counted raw_syscalls/sys_exit id "1024$1" 'ret == -38'
	counted syscalls/sys_enter_socket family,protocol,common_pid.execname "4096$1"
	counted syscalls/sys_enter_clone clone_flags.hex,common_pid.execname "4096$1"
	counted syscalls/sys_enter_unshare unshare_flags.hex,common_pid.execname "4096$1"
}
counted() { on "events/$1/trigger" "hist:keys=$2:size=$3${4:+ if $4}"; }

for image in $images; do
	docker load -q -i "$files/$image" >"$work/load" 2>&1 || fail "docker load $image: $(tail -n 3 "$work/load")"
done
section release
uname -r
read -r up _ </proc/uptime
if [ -n "$traced" ]; then
	[ -d $t/events ] || mount -t tracefs tracefs $t || fail "the kernel has no tracefs"
	command -v modprobe modinfo >"$work/kmod" || fail "the root file system has no modprobe and modinfo (Debian's package kmod): the kernel could load no module"
	# What the engine does for any container is no news of this one.
	! docker image inspect tare/workbench:latest >"$work/plain" 2>&1 || docker run --rm tare/workbench:latest /bin/busybox true >"$work/plain" 2>&1 || fail "a plain container: $(tail -n 3 "$work/plain")"
	echo 0 >$t/tracing_on
	echo >$t/trace
	on buffer_size_kb 8192
	on events/module/module_load/enable 1
	on events/module/module_request/enable 1
	on dynamic_events 'e:tare/open syscalls.sys_enter_openat file=+0($filename):ustring'
	on dynamic_events 'e:tare/mount syscalls.sys_enter_mount type=+0($type):ustring'
	on dynamic_events 'e:tare/fsopen syscalls.sys_enter_fsopen type=+0($_fs_name):ustring'
	on dynamic_events 'e:tare/clone3 syscalls.sys_enter_clone3 flags=+0($uargs):x64'
	on events/tare/open/filter 'file ~ "/dev/*" || file ~ "/proc/*" || file ~ "/sys/*"'
	for event in open mount fsopen clone3; do on events/tare/$event/enable 1; done
	cut -d ' ' -f 1 /proc/modules >"$work/before"
	dmesg >"$work/dmesg" 2>/dev/null
	seen=$(wc -l <"$work/dmesg")
	counting
	echo 1 >$t/tracing_on
	echo 'tare: the command begins' >$t/trace_marker # the first code of this mark is looked for, too
fi
read -r began _ </proc/uptime
(workload) >"$work/said" 2>&1 </dev/null
code=$?
read -r ended _ </proc/uptime
if [ -n "$traced" ]; then
	printf 'tare' >$t/trace_marker_raw 2>/dev/null
	counting :pause
	echo 0 >$t/tracing_on
fi
section times
echo "$up $began $ended"
section exit
echo $code
section said
tail -c 65536 "$work/said" | sed 's/^@@/ @@/'
echo # a last line without its end must not swallow the next title
if [ -n "$traced" ]; then
	section lacks
	for one in $lacks; do echo "$one"; done
	section modules
	{ cut -d ' ' -f 1 /proc/modules | grep -vxFf "$work/before"; sed -n 's/.*: module_load: \([a-zA-Z0-9_]*\).*/\1/p' $t/trace; } | sort -u |
		while read -r module; do
			echo "name: $module"
			modinfo "$module" | grep -E '^(filename|alias|depends):'
		done
	section present
	while read -r module; do
		echo "name: $module"
		modinfo "$module" | grep '^filename:'
	done <"$work/before"
	section devnames
	grep -v '^#' "/lib/modules/$(uname -r)/modules.devname"
	for event in raw_syscalls/sys_enter raw_syscalls/sys_exit syscalls/sys_enter_socket syscalls/sys_enter_clone syscalls/sys_enter_unshare; do
		section "hist ${event#*/}"
		grep -e '^{' -e 'Dropped: *[1-9]' $t/events/$event/hist
	done
	section trace
	grep -v '^#' $t/trace >"$work/trace"
	head -c 16777216 "$work/trace"
	echo
	section lost
	grep -h '^overrun: *[1-9]' $t/per_cpu/cpu*/stats
	[ "$(wc -c <"$work/trace")" -le 16777216 ] || echo "its end is cut off"
	section config
	cat "/boot/config-$(uname -r)" 2>/dev/null || zcat /proc/config.gz 2>/dev/null || cat "/lib/modules/$(uname -r)/config"
	section initcalls
	dmesg | tail -n +$((seen + 1)) | grep 'initcall .* returned'
	section functions
	awk '$2 ~ /^[tTwW]$/ { print $1, $2, $3, $4 }' /proc/kallsyms
fi
section end
exit $code
