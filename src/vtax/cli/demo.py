"""`vtax demo`: a small study in an emulated machine, for a host without that hypervisor."""

from __future__ import annotations

import click

from vtax.cli.measure import conclude, prepare_host
from vtax.cli.needed_image import provide, recipe_for
from vtax.cli.output import confirmed, need_root, notify
from vtax.counters.host import machine_id
from vtax.demo.demo import DEMOS, check_host, measured
from vtax.errors import BadInput, Busy, VtaxError
from vtax.host.home import Home
from vtax.host.lock import measuring_lock, measuring_process
from vtax.image.build import find
from vtax.store.bundle import Bundle
from vtax.store.importing import import_bundle
from vtax.store.store import Store
from vtax.study.load import load

NOTICE = "The machine is emulated: its figures show how vtax works, and say nothing about hardware."


@click.command("demo")
@click.argument("hypervisor", metavar="HYPERVISOR", type=click.Choice(list(DEMOS)))
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
def command(hypervisor: str, yes: bool) -> None:
    """Run a small study with KVM or Xen in an emulated machine, and add its run to the store.

    HYPERVISOR is kvm or xen. The machine is a Debian system that QEMU emulates. It is built once, has no network,
    and its changes are discarded. It needs no hardware virtualization. Its figures say nothing about hardware.
    """
    need_root("starting an emulated machine")
    home, demo = Home.from_environment().ensure(), DEMOS[hypervisor]
    check_host(home, demo)
    recipe = recipe_for(load(str(demo.study)))
    expected = demo.expected(home, has_image=find(home, recipe) is not None)
    notify(f"{NOTICE}\n{demo.needs(home)}\nestimated time, longer on a busy host: {expected}")
    if running := measuring_process()[0]:
        raise Busy(
            f"{running} is measuring on this host", hint="start the demonstration after its end"
        )
    unanswered = BadInput(
        "no answer whether to start it", hint="vtax demo --yes skips the confirmation"
    )
    if not yes and not confirmed("start it", unanswered):
        raise VtaxError("nothing was started")
    with measuring_lock(f"vtax demo {hypervisor}"):
        prepare_host(home)
        image = provide(home, recipe)
        with measured(demo, home, [image], notify) as bundle, Store.open(home.store_url) as store:
            name = import_bundle(store.engine, Bundle(bundle), machine_id()).name
    with Store.open(home.store_url) as store:
        conclude(name, store, as_json=False, strict=False)
    notify(NOTICE)
