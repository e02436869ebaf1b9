#!/bin/sh
# A runtime that fails in the way its name says. It takes the arguments of a
# real one: --root R --log F --log-format json COMMAND ... --pid-file P ... ID
name=$(basename "$0")
if [ "$1" = --version ]; then
	case $name in
	faulty-version-hangs | faulty-version-leaves)
		sleep 300 &
		echo $! >"$0.left"
		[ $name = faulty-version-leaves ] || wait
		;;
	faulty-unversioned)
		echo "$name version VERSION_MISSING"
		exit 0
		;;
	esac
	echo "$name version 1.0"
	exit 0
fi
root=$2 log=$4 command=$7
while [ $# -gt 0 ]; do
	[ "$1" = --pid-file ] && pidfile=$2
	id=$1
	shift
done

# leave starts a process that outlives the runtime, as a container does.
leave() {
	mkdir -p "$root/$id"
	setsid sleep 300 >/dev/null 2>&1 </dev/null &
	echo $! >"$root/$id/left"
}

case $name.$command in
faulty-hangs.run) exec sleep 300 ;;
faulty-dies.run)
	echo '{"level":"info","msg":"all is well"}' >>"$log"
	echo '{"level":"error","msg":"cannot frobnicate /x: no such device"}' >>"$log"
	exit 1
	;;
faulty-speaks-rust.run)
	echo '{"level":"ERROR","fields":{"message":"failed to frobnicate","err":"EBADF"}}' >>"$log"
	exit 255
	;;
faulty-garbage.run)
	printf '\001\002 what is this\n' >>"$log"
	exit 3
	;;
faulty-silent.run) exit 1 ;;
faulty-killed.run) kill -9 $$ ;;
faulty-no-pid.run) exit 0 ;;
faulty-bad-pid.run) echo "not a number" >"$pidfile" ;;
faulty-foreign-pid.run) echo 1 >"$pidfile" ;;
faulty-leaves-container.run)
	leave
	exit 1
	;;
faulty-delete-fails.run | faulty-delete-hangs.run)
	leave
	cp "$root/$id/left" "$pidfile"
	;;
faulty-delete-fails.delete)
	echo '{"level":"error","msg":"will not delete"}' >>"$log"
	exit 1
	;;
faulty-delete-hangs.delete) exec sleep 300 ;;
*.delete) exit 0 ;;
*) exit 64 ;;
esac
