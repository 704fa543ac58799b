#!/usr/bin/env bash
# Proves the README on a machine that has never seen vtax: a new Debian userland on this kernel.
#
#   sudo tests/nested/fresh_userland.sh bookworm|trixie [COMMAND...]      (5 to 10 minutes; needs mmdebstrap)
#
# It makes a minimal tree of the suite, enters it in private mount and PID namespaces with a copy of the committed
# checkout at /root/vtax, and runs there, without COMMAND: the quickstart as a newcomer does (--yes --install-only), the
# same again (which must find nothing to do and take under a second), and `vtax --version` and `vtax doctor`.
# FRESH_TREES keeps the minimal trees between runs (default /var/tmp/vtax-fresh).
set -euo pipefail

suite=${1:?usage: fresh_userland.sh SUITE [COMMAND...]}
shift
checkout=$(git -C "$(dirname "$(readlink -f "$0")")" rev-parse --show-toplevel)
trees=${FRESH_TREES:-/var/tmp/vtax-fresh}
mkdir -p "$trees"
[ -s "$trees/$suite.tar" ] || {
  mmdebstrap --quiet --variant=minbase --include=git,ca-certificates "$suite" "$trees/$suite.tar.part" </dev/null
  mv "$trees/$suite.tar.part" "$trees/$suite.tar"
}
root=$(mktemp -d "$trees/$suite.XXXXXX")
trap 'rm -rf --one-file-system "$root"' EXIT

tar -xf "$trees/$suite.tar" -C "$root"
git clone --quiet --no-hardlinks "$checkout" "$root/root/vtax"
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
cp /etc/hosts "$root/etc/hosts"
# A host behind a proxy may trust certificates of its own
cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"

if [ $# -eq 0 ]; then
  set -- bash -euc '
    echo "=== $(. /etc/os-release && echo "$PRETTY_NAME"): ./quickstart --yes --install-only"
    time ./quickstart --yes --install-only
    echo "=== again"
    time ./quickstart --install-only
    .venv/bin/vtax --version
    .venv/bin/python -c "import sys; print(sys.version)"
    git status --short
    echo "=== vtax doctor"
    .venv/bin/vtax doctor || true
  '
fi

# Mounts and processes of the new userland are gone with its namespaces.
unshare --mount --pid --fork --kill-child --propagation private bash -euc '
  root=$1
  shift
  mount --bind "$root" "$root"
  mount -t proc proc "$root/proc"
  mount --rbind /sys "$root/sys"
  mount --rbind /dev "$root/dev"
  mount -t tmpfs tmpfs "$root/run"
  exec env -i HOME=/root TERM="${TERM:-dumb}" PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    LANG=C.UTF-8 PIP_CERT=/etc/ssl/certs/ca-certificates.crt chroot "$root" sh -c "cd /root/vtax && exec \"\$@\"" sh "$@"
' bash "$root" "$@"
