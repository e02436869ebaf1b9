# The guest's engines take the image that was built for this machine on another one, which
# lies on the second disk as it is, and run it. Its architecture is $1.
set -eu
release='. /etc/os-release && echo "$PRETTY_NAME" on "$(uname -m)"'
docker load </dev/vdb
echo "base: $(docker run --rm "tare-base:$1" sh -c "$release")"
docker run --rm "tare-workbench:$1" tare-index 0.1 1
podman load </dev/vdb
echo "podman: $(podman run --rm --network none "localhost/tare-base:$1" sh -c "$release")"
ctr images import - </dev/vdb
echo "ctr: $(ctr run --rm "docker.io/library/tare-base:$1" base sh -c "$release")"
