#!/bin/bash
# README's `make demo`, and `make quick`, as a newcomer has them: on a bare Debian with its own Python.
#   tests/fresh_check.sh [SUITE]    SUITE: trixie (Debian 13, the default) or another one of Debian's
# It needs root, debootstrap, and 6 GB in the temporary folder; what is not committed is not tested.
set -euo pipefail
suite=${1:-trixie}
if [ "$(id -u)" != 0 ] || ! command -v debootstrap > /dev/null; then
  echo "This needs root, and debootstrap (apt install debootstrap)." >&2
  exit 1
fi
repository=$(cd "$(dirname "$0")/.." && pwd)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

echo "Making a bare Debian ($suite) …"
debootstrap --variant=minbase --include=ca-certificates,make,python3,python3-venv \
  "$suite" "$root" > "$root.log" 2>&1 || { tail -n 20 "$root.log" >&2; exit 1; }
rm "$root.log"
# Whom this machine trusts, and how it finds names.
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
cp /etc/resolv.conf /etc/hosts "$root/etc/"
git clone --quiet "$repository" "$root/root/image-pipeline"

# Mounts of its own, which end with it; nothing of this machine's environment.
run() {
  echo "--- $*"
  unshare --mount bash -c '
    mount --bind /proc "$0/proc" && mount --bind /dev "$0/dev"
    exec chroot "$0" env -i HOME=/root LANG=C.UTF-8 PATH=/usr/bin:/bin \
      PIP_CERT=/etc/ssl/certs/ca-certificates.crt SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt \
      sh -c "cd /root/image-pipeline && $1"' "$root" "$*"
}
run "cat /etc/debian_version && python3 --version && getconf GNU_LIBC_VERSION"
run "make demo"
run "make quick"
