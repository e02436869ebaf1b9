#!/usr/bin/env bash
# A Kubernetes of one control plane and real nodes on one machine. A node is a containerd
# and a kubelet in PID, network, UTS and mount namespaces of its own, so that killing its
# first process is the death of a machine.
#
#   cluster.sh DIRECTORY NODES [IMAGE.tar...]
#
# brings the cluster up, says "ready", and obeys standard input: "kill NODE" and "start NODE",
# each answered by a line. At its end (Ctrl-D) all is taken down, DIRECTORY too. It gets
# admin.conf, and tare.conf with a user who has no rights but those that are granted. Each
# image is imported on each node as localhost/NAME@DIGEST. Needs root.
#
# Nothing outlives the cluster, also when it is killed: its processes are in a PID
# namespace that ends with this one, its links and mounts end with them, and kubelet writes
# to copies of the settings of the kernel. What remains after a kill -9 of this script are
# groups, which the next one removes.
set -euo pipefail

net=10.78.0 link=tare-k8s group=tare-kubernetes
server=${KUBERNETES_SERVER:?the program that build.sh makes}
# kubelet sets these for the whole machine and never puts them back.
settings="vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys kernel/keys/root_maxbytes"

# roots prints the root of each hierarchy of cgroups.
roots() {
	if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
		echo /sys/fs/cgroup
		return
	fi
	local dir
	for dir in /sys/fs/cgroup/*; do
		[ -L "$dir" ] || [ ! -e "$dir/cgroup.procs" ] || echo "$dir"
	done
}

# A group of cpuset in v1 takes no process before it has CPUs and memory.
make_groups() {
	local root name
	for root in $(roots); do
		for name in "$group" "$group/$1"; do
			mkdir -p "$root/$name"
			if [ -e "$root/cpuset.cpus" ] && [ -e "$root/cpuset.mems" ]; then
				cat "$root/cpuset.cpus" >"$root/$name/cpuset.cpus"
				cat "$root/cpuset.mems" >"$root/$name/cpuset.mems"
			fi
		done
	done
}

# Processes that die leave their groups a moment later.
remove_groups() {
	local root left
	for _ in $(seq 100); do
		left=
		for root in $(roots); do
			[ ! -d "$root/$group" ] || find "$root/$group" -depth -type d -exec rmdir {} + 2>/dev/null || left=$root/$group
		done
		[ -n "$left" ] || return 0
		sleep 0.1
	done
	echo "cluster: $left cannot be removed: its processes live" >&2
	return 1
}

# A namespace's links go some time after its last process.
end() {
	[ -z "${inner:-}" ] || kill -KILL "$inner" 2>/dev/null || true
	ip link del "$link" 2>/dev/null || true
	rm -rf --one-file-system "$dir"
	remove_groups
}

# outside is the part in the machine's own namespaces.
outside() {
	dir=$(realpath -m "$1")
	set -- "$dir" "${@:2}"
	mkdir -p "$dir"
	[ "${#dir}" -le 60 ] && [ -z "$(ls -A "$dir")" ] || { echo "cluster: $dir must be short, for sockets, and empty" >&2; exit 2; }
	remove_groups
	trap 'end' EXIT
	mkfifo "$dir/linked"
	# 3 is standard input: that of a background process is /dev/null.
	setpriv --pdeathsig KILL unshare --net --pid --mount --uts --mount-proc --kill-child "$0" --inside "$@" <&3 &
	inner=$!
	read -r _ <"$dir/linked" # its namespaces are there
	ip link add "$link" type veth peer name host netns "$inner"
	ip addr add $net.254/24 dev "$link"
	ip link set "$link" up
	echo >"$dir/linked"
	wait "$inner"
}

k() { "$server" kubectl --kubeconfig "$dir/admin.conf" "$@"; }

kubeconfig() { # FILE TOKEN
	cat >"$1" <<-C
		apiVersion: v1
		kind: Config
		clusters: [{name: test, cluster: {server: "https://$net.1:6443", insecure-skip-tls-verify: true}}]
		users: [{name: user, user: {token: "$2"}}]
		contexts: [{name: test, context: {cluster: test, user: user}}]
		current-context: test
	C
}

component() { # NAME ARGUMENT...
	(cd "$dir" && exec "$server" "$@" >"log/$1" 2>&1 </dev/null) &
}

# until_it COMMAND... waits for a minute at most.
until_it() {
	for _ in $(seq 300); do
		! "$@" >"$dir/log/last" 2>&1 || return 0
		sleep 0.2
	done
	echo "cluster: gave up waiting for: $*" >&2
	tail -n 5 "$dir"/log/* >&2
	exit 1
}

control() {
	local user controllers
	mkdir -p "$dir"/{etcd,pki,log}
	openssl genrsa -out "$dir/pki/sa.key" 2048 2>/dev/null
	openssl rsa -in "$dir/pki/sa.key" -pubout -out "$dir/pki/sa.pub" 2>/dev/null
	for user in admin node controllers scheduler; do
		echo "$user-token,$user,$user,\"system:masters\""
		kubeconfig "$dir/$user.conf" "$user-token"
	done >"$dir/tokens.csv"
	echo 'tare-token,tare,tare' >>"$dir/tokens.csv"
	kubeconfig "$dir/tare.conf" tare-token

	component etcd --data-dir "$dir/etcd" --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
		--listen-peer-urls http://127.0.0.1:2380 --unsafe-no-fsync --log-level warn
	component kube-apiserver --etcd-servers http://127.0.0.1:2379 --cert-dir "$dir/pki" --bind-address $net.1 --advertise-address $net.1 \
		--service-account-key-file pki/sa.pub --service-account-signing-key-file pki/sa.key --service-account-issuer https://tare.test \
		--token-auth-file tokens.csv --authorization-mode RBAC --allow-privileged --service-cluster-ip-range 10.79.0.0/24 \
		--disable-admission-plugins ServiceAccount --kubelet-preferred-address-types InternalIP
	until_it k get --raw /readyz
	controllers=job-controller,node-lifecycle-controller,taint-eviction-controller,garbage-collector-controller,ttl-after-finished-controller,namespace-controller,pod-garbage-collector-controller,resourcequota-controller
	component kube-controller-manager --kubeconfig controllers.conf --controllers $controllers --node-monitor-grace-period 20s --leader-elect=false --secure-port 0
	component kube-scheduler --kubeconfig scheduler.conf --leader-elect=false --secure-port 0
}

# node runs as the first process of a node.
node() {
	local name=$1 address=$2 setting image base
	local own=$dir/$name
	hostname "$name"
	ip addr add "$address/24" dev eth0
	ip link set eth0 up
	ip link set lo up
	ip route add default via $net.1
	# What containerd and kubelet keep at fixed places is the node's own, and ends with it.
	mount -t tmpfs tmpfs /run
	mount -t tmpfs tmpfs /var/log
	mount -t tmpfs tmpfs /var/lib
	mkdir -p "$own"/{kubelet,containerd,settings,cni}
	for setting in $settings; do
		cp "/proc/sys/$setting" "$own/settings/${setting//\//-}"
		mount --bind "$own/settings/${setting//\//-}" "/proc/sys/$setting"
	done
	echo '{"cniVersion":"0.4.0","name":"lo","plugins":[{"type":"loopback"}]}' >"$own/cni/10-lo.conflist"
	containerd_config >"$own/containerd.toml"
	kubelet_config >"$own/kubelet.yaml"
	containerd --config "$own/containerd.toml" >"$dir/log/$name-containerd" 2>&1 </dev/null &
	until_it ctr -a "$own/containerd.sock" version
	for image in "${images[@]}"; do
		base=localhost/$(basename "$image" .tar)
		ctr -a "$own/containerd.sock" -n k8s.io images import --base-name "$base" --digests "$image" >>"$dir/log/$name-import" 2>&1
	done
	"$server" kubelet --config "$own/kubelet.yaml" --kubeconfig "$dir/node.conf" --root-dir "$own/kubelet" --cert-dir "$own/pki" \
		--hostname-override "$name" --node-ip "$address" >"$dir/log/$name-kubelet" 2>&1 </dev/null &
	wait
}

containerd_config() {
	cat <<-C
		version = 2
		root = "$own/containerd"
		state = "/run/containerd"
		[grpc]
		  address = "$own/containerd.sock"
		[plugins."io.containerd.internal.v1.opt"]
		  path = "$own/opt"
		[plugins."io.containerd.grpc.v1.cri"]
		  sandbox_image = "localhost/pause:1"
		  restrict_oom_score_adj = true
		  disable_apparmor = true
		  stream_server_address = "127.0.0.1"
		  [plugins."io.containerd.grpc.v1.cri".cni]
		    bin_dir = "/usr/lib/cni"
		    conf_dir = "$own/cni"
	C
}

kubelet_config() {
	cat <<-C
		apiVersion: kubelet.config.k8s.io/v1beta1
		kind: KubeletConfiguration
		address: $address
		readOnlyPort: 0
		healthzPort: 0
		authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
		authorization: {mode: AlwaysAllow}
		cgroupDriver: cgroupfs
		cgroupRoot: /$group/$name
		enforceNodeAllocatable: []
		failSwapOn: false
		failCgroupV1: false
		containerRuntimeEndpoint: unix://$own/containerd.sock
		volumePluginDir: $own/plugins
		oomScoreAdj: 0
		makeIPTablesUtilChains: false
		localStorageCapacityIsolation: false
		imageGCHighThresholdPercent: 100
		evictionHard: {memory.available: "10Mi"}
		nodeStatusUpdateFrequency: 4s
		featureGates: {KubeletInUserNamespace: true}
	C
}

start_node() { # NAME
	local name=$1
	make_groups "$name"
	ip link del "$name" 2>/dev/null || true
	unshare --net --pid --mount --uts --mount-proc --kill-child "$self" --node "$name" "$net.1${name#n}" "$dir" "${images[@]}" </dev/null &
	pids[$name]=$!
	until_it has_network "${pids[$name]}"
	ip link add "$name" type veth peer name eth0 netns "${pids[$name]}"
	ip link set "$name" master br0 up
}

has_network() { [ "$(readlink "/proc/$1/ns/net")" != "$(readlink /proc/self/ns/net)" ]; }

is_ready() { k get node "$1" | grep -q ' Ready '; }

inside() {
	declare -A pids
	local count=$1 i order name
	shift
	images=("$@")
	echo >"$dir/linked"
	read -r _ <"$dir/linked"
	hostname control
	ip link add br0 type bridge
	ip link set host master br0 up
	ip addr add $net.1/24 dev br0
	ip link set br0 up
	ip link set lo up
	control
	for i in $(seq "$count"); do start_node "n$i"; done
	for i in $(seq "$count"); do until_it is_ready "n$i"; done
	echo ready
	while read -r order name; do
		case $order in
		kill) kill -KILL "${pids[$name]}" && wait "${pids[$name]}" || true ;;
		start) start_node "$name" ;;
		*) order="unknown order: $order" ;;
		esac
		echo "$order $name"
	done
}

self=$(realpath "$0")
case ${1:-} in
--inside)
	dir=$2
	shift 2
	inside "$@"
	;;
--node)
	name=$2 address=$3 dir=$4
	shift 4
	images=("$@")
	for _ in $(seq 100); do # the other end comes when this process is there
		! ip link show eth0 >/dev/null 2>&1 || break
		sleep 0.1
	done
	node "$name" "$address"
	;;
*)
	[ $# -ge 2 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
	exec 3<&0
	outside "$@"
	;;
esac
