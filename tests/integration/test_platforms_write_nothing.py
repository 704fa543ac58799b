"""Starting a guest writes nothing into the host's configuration and state, even the first time on a host."""

import subprocess
import sys

import pytest
from drivers import SHARE_A_KERNEL
from support import needs_root

from vtax.platforms import registry

pytestmark = [needs_root]
PROBE = "import sys; from vtax.platforms import registry; print(registry.get(sys.argv[1]).probe(None).available)"
OVERLAID = """
mount -t tmpfs tmpfs /mnt
for directory in etc var/lib; do
  mkdir -p /mnt/$directory/upper /mnt/$directory/work
  own=/mnt/$directory
  mount -t overlay -o lowerdir=/$directory,upperdir=$own/upper,workdir=$own/work overlay /$directory
done
rm -rf /etc/cni # an earlier Podman's
"$@"
find /mnt/*/upper /mnt/*/*/upper -mindepth 1 -not -type c
"""


@pytest.mark.parametrize("name", SHARE_A_KERNEL)
def test_a_probe_writes_nothing_into_etc_and_var_lib(name, private_home):
    if not (probe := registry.get(name).probe(None)).available:
        pytest.skip(f"{name} does not run here: {probe.reason}")
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-euc", OVERLAID, "sh", sys.executable, "-c", PROBE, name],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("True\n", 0), done
