#!/bin/sh
# The first process of a node, in namespaces of its own for processes, mounts,
# network, host name and IPC. It makes the machine's files look like a node's,
# without changing them, and then only reaps what its descendants leave. When
# it dies the kernel ends every process of the node and takes its mounts and
# network devices away.
#
# Arguments: the node's folder, the node's name.
set -eu
dir=$1
name=$2

# Nothing mounted from here on shows outside.
mount --make-rprivate /
mount -t proc proc /proc
echo "$name" > /proc/sys/kernel/hostname

# What runtimes and network plugins put into fixed places goes to memory. The
# folders of services that a collector may ask stay the machine's.
mkdir "$dir/run" "$dir/var" "$dir/sysctl"
mount -t tmpfs -o mode=755 node-run "$dir/run"
for service in dbus systemd udev; do
	if [ -d "/run/$service" ]; then
		mkdir "$dir/run/$service"
		mount --rbind "/run/$service" "$dir/run/$service"
	fi
done
mount --rbind "$dir/run" /run
mount -t tmpfs -o mode=755 node-var "$dir/var"
mkdir "$dir/var/upper" "$dir/var/work"
mount -t overlay -o "lowerdir=/var/lib,upperdir=$dir/var/upper,workdir=$dir/var/work" node-lib /var/lib
mount -t tmpfs -o mode=755 node-log /var/log

# The kubelet insists on these settings of the whole machine. It is shown files
# that have them, so that it leaves the real ones alone.
show() {
	[ -e "/proc/sys/$1" ] || return 0
	echo "$2" > "$dir/sysctl/$3"
	mount --bind "$dir/sysctl/$3" "/proc/sys/$1"
}
show vm/overcommit_memory 1 overcommit_memory
show vm/panic_on_oom 0 panic_on_oom
show kernel/panic 10 panic
show kernel/panic_on_oops 1 panic_on_oops
show kernel/keys/root_maxkeys 1000000 root_maxkeys
show kernel/keys/root_maxbytes 25000000 root_maxbytes

# Pods' volumes are mounted by one process and seen by another: the kubelet
# and the runtime both need propagation.
mount --make-rshared /

: > "$dir/ready"
while :; do
	sleep infinity &
	wait
done
