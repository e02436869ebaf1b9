# The guest's dockerd takes the image that was built for this machine on another one, which
# lies on the second disk as it is, and runs it. Its architecture is $1.
set -eu
docker load </dev/vdb
echo "base: $(docker run --rm "tare-base:$1" sh -c '. /etc/os-release && echo "$PRETTY_NAME" on "$(uname -m)"')"
docker run --rm "tare-workbench:$1" tare-index 0.1 1
