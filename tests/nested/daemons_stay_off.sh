#!/usr/bin/env bash
# Proves on a booted system with systemd that what quickstart installs starts nothing and touches no network.
#
#   sudo tests/nested/daemons_stay_off.sh [SUITE]        (5 minutes; needs mmdebstrap and systemd-nspawn)
#
# A Debian tree (bookworm, unless SUITE says otherwise) with systemd fetches the packages quickstart would install, boots in a container
# with an empty network of its own, and runs quickstart there. Without network it ends before the Python packages, which
# do not matter here. Compared before and after: enabled and running services, links, forwarding, firewall.
set -euo pipefail

suite=${1:-bookworm}
checkout=$(git -C "$(dirname "$(readlink -f "$0")")" rev-parse --show-toplevel)
root=$(mktemp -d "/var/tmp/vtax-boot.XXXXXX")
trap 'rm -rf --one-file-system "$root"' EXIT

mmdebstrap --quiet --variant=minbase --include=git,systemd-sysv,dbus,udev,iproute2,iptables "$suite" "$root" </dev/null
git clone --quiet --no-hardlinks "$checkout" "$root/root/vtax"
cp -L /etc/resolv.conf "$root/etc/resolv.conf"

cat >"$root/root/fetch" <<'END'
cd /root/vtax
source <(sed '/^main /d' quickstart)
find_missing
apt-get -qq update
apt-get -qq --yes --no-install-recommends --download-only install "${packages[@]}"
END
unshare --mount --propagation private bash -euc 'mount -t proc proc "$1/proc"; chroot "$1" bash /root/fetch' bash "$root"

cat >"$root/root/check" <<'END'
#!/bin/bash
state() {
  echo "enabled:"
  systemctl list-unit-files --type=service,socket,timer --state=enabled --no-legend --no-pager | awk '{print $1}'
  echo "running:"
  systemctl list-units --type=service,socket --no-legend --no-pager | awk '{print $1}' | grep -v check.service
  echo "network:"
  ip -br link
  cat /proc/sys/net/ipv4/ip_forward
  iptables-save
}
state >/root/before
cd /root/vtax && ./quickstart --yes --install-only >/root/said 2>&1
dpkg-query --show docker.io lxc podman >>/root/said
state >/root/after
systemctl poweroff
END
chmod +x "$root/root/check"
mkdir -p "$root/etc/systemd/system/multi-user.target.wants"
printf '[Unit]\nAfter=multi-user.target\n[Service]\nExecStart=/root/check\n' >"$root/etc/systemd/system/check.service"
ln -s ../check.service "$root/etc/systemd/system/multi-user.target.wants/check.service"

timeout 600 systemd-nspawn --quiet --keep-unit --register=no --private-network --link-journal=no --console=pipe \
  --machine=vtax-boot --boot --directory="$root" </dev/null >"$root/boot.log" 2>&1 || true

[ -s "$root/root/after" ] || {
  tail -n 30 "$root/boot.log" >&2
  echo "the machine did not boot, or did not come to an end" >&2
  exit 1
}
cat "$root/root/said"
grep -q '^docker.io' "$root/root/said" || exit 1
diff "$root/root/before" "$root/root/after"
echo "nothing was started, nothing was enabled, no link was made"
