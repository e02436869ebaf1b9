#!/bin/busybox sh
# Mounts the root that the kernel's command line names (root=, rootfstype=,
# rootflags=, ro, rw), and becomes its init= with the arguments that the kernel gave.
# /dev goes along; the rest is as after a boot without an initramfs.
set -f # parameters are no patterns
export PATH=/bin

fail() {
	echo "tare: initrd: $*"
	exit 1 # and the kernel panics
}

busybox mkdir -p /proc /dev /root
busybox mount -t proc proc /proc && busybox mount -t devtmpfs dev /dev || fail "no /proc or no /dev"
read -r line </proc/cmdline
root='' type=auto flags='' mode=ro init=/sbin/init
for word in $line; do
	case $word in
	root=*) root=${word#root=} ;;
	rootfstype=*) type=${word#rootfstype=} ;;
	rootflags=*) flags=,${word#rootflags=} ;;
	init=*) init=${word#init=} ;;
	ro | rw) mode=$word ;;
	--) break ;;
	esac
done
case $root in
/dev/* | UUID=* | LABEL=*) ;;
*) fail "root=$root: it mounts /dev/NAME, UUID= and LABEL=; the kernel mounts PARTUUID= by itself, without an initrd" ;;
esac

tries=0
device=$root
until { [ "${root#/}" != "$root" ] || device=$(busybox findfs "$root" 2>/dev/null); } && [ -b "$device" ]; do
	tries=$((tries + 1))
	[ $tries -le 100 ] || fail "root=$root did not come in 10 s; the disks are: $(busybox cat /proc/partitions)"
	busybox sleep 0.1
done
busybox mount -t "$type" -o "$mode$flags" "$device" /root || fail "root=$root: $device cannot be mounted: the kernel lacks its file system, or it is broken"
busybox mount -o move /dev /root/dev
busybox umount /proc
exec busybox switch_root /root "$init" "$@"
