"""Checks of a topology: its declarations, ends, flows, traffic and leaks."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from ipaddress import ip_address, ip_network
from typing import Any, get_args

from vtax.conformance import declared, host
from vtax.conformance.check import Check, Failed, Skipped, require
from vtax.conformance.host import HostResources
from vtax.conformance.stage import CheckEnvironment, GuestStage
from vtax.conformance.target import Target
from vtax.errors import BadInput
from vtax.host.journal import Journal
from vtax.network.links import Links
from vtax.network.settings import Attachment, LinkSettings
from vtax.network.topology import Topology

_LAB = (ip_network("198.18.0.0/15"), ip_network("2001:2::/48"))
_OTHER_MTU = 1400


class TopologySubject:
    """A topology with its default settings."""

    def __init__(self, target: Target, environment: CheckEnvironment) -> None:
        self.target, self.environment = target, environment
        self.topology: Topology[LinkSettings] = target.plugin
        self.token = secrets.token_hex(8)

    @property
    def settings(self) -> LinkSettings:
        """The default settings with the first supported attachment. Raises BadInput."""
        return settings_of(self.topology)

    def with_links(self, use: Callable[[Links], None]) -> None:
        """Build the lab, use it and remove it."""
        self.environment.need_image()
        with Journal(self.environment.home.journal) as journal:
            links = built(self.topology, journal)
            try:
                use(links)
            finally:
                links.close()


def settings_of(topology: Topology[LinkSettings]) -> LinkSettings:
    """Return default settings with an attachment that the topology supports."""
    default = topology.Settings.model_fields["attachment"].default
    attachment = default if default in topology.attachments else topology.attachments[0]
    return topology.Settings.of({} if attachment == default else {"attachment": attachment})


def built(topology: Topology[LinkSettings], journal: Journal) -> Links:
    """Return the links of a topology with its default settings."""
    return topology.build(journal, settings_of(topology))


def _settings_model(subject: TopologySubject) -> None:
    model: Any = subject.topology.Settings
    declared.check_model(model, defaults=True)
    require(issubclass(model, LinkSettings), f"{model.__name__} is not derived from LinkSettings")


def _attachments(subject: TopologySubject) -> None:
    attachments, known_attachments = subject.topology.attachments, get_args(Attachment)
    require(
        attachments and set(attachments) <= set(known_attachments),
        f"attachments is {attachments!r}, of {', '.join(known_attachments)}",
    )


def _sizes(subject: TopologySubject) -> None:
    topology, settings = subject.topology, subject.settings
    for what, size in (
        ("guests", topology.guests(settings)),
        ("interfaces", topology.interfaces(settings)),
        ("max_mtu", topology.max_mtu),
    ):
        require(isinstance(size, int) and size > 0, f"{what} is {size!r}")
    natives = topology.natives
    require(
        isinstance(natives, tuple) and len(set(natives)) == len(natives), f"natives is {natives!r}"
    )


def _host(subject: TopologySubject) -> None:
    subject.environment.need_image()
    try:
        subject.topology.check(subject.settings)
    except BadInput as error:
        raise Skipped(f"it cannot be built here: {error.what}") from error


def _build(subject: TopologySubject) -> None:
    def use(links: Links) -> None:
        require(isinstance(links, Links), f"wire returns {links!r}")

    subject.with_links(use)


def _ends(subject: TopologySubject) -> None:
    topology, settings = subject.topology, subject.settings

    def use(links: Links) -> None:
        under_test = links.guests
        roles = [end.role for end in links.ends]
        require(len(set(roles)) == len(roles), f"two ends have the same role: {', '.join(roles)}")
        require(
            "guest" in [end.role for end in under_test], "no end under test has the role `guest`"
        )
        guests, natives = len(under_test), [end.role for end in links.ends if not end.under_test]
        require(
            guests == topology.guests(settings),
            f"{guests} ends are under test, not {topology.guests(settings)}",
        )
        require(
            sorted(natives) == sorted(topology.natives),
            f"the native ends are {', '.join(natives) or 'none'}, not {', '.join(topology.natives) or 'none'}",
        )
        for end in under_test:
            expected = topology.interfaces(settings)
            require(
                len(end.interfaces) == expected,
                f"{end.role} has {len(end.interfaces)} interfaces, not {expected}",
            )

    subject.with_links(use)


def _flows(subject: TopologySubject) -> None:
    def use(links: Links) -> None:
        require(links.flows, "it has no flow")
        roles = {end.role for end in links.ends}
        for flow in links.flows:
            require(
                {flow.client, flow.server} <= roles,
                f"no end has a role of the flow {flow.client}, {flow.server}",
            )
            for address in (flow.client_address, flow.server_address):
                is_of_lab = any(ip_address(address) in network for network in _LAB)
                require(is_of_lab, f"{address} is not an address of 198.18.0.0/15 or 2001:2::/48")

    subject.with_links(use)


def _traffic(subject: TopologySubject) -> None:
    settings = subject.settings
    with GuestStage(subject.environment) as stage:
        links = built(subject.topology, stage.journal)
        stage.start_ends(links, {})
        links.apply(settings)
        before = links.counters()
        links.verify()
        after = links.counters()
        require(
            any(after[n] > before[n] for n in after if n.endswith("_bytes")),
            "no interface counts a packet",
        )
        if links.warnings:
            raise Failed(links.warnings[0])


def _mtu(subject: TopologySubject) -> None:
    settings = subject.settings
    with GuestStage(subject.environment) as stage:
        links = built(subject.topology, stage.journal)
        stage.start_ends(links, {})
        links.apply(settings)
        links.apply(settings.model_copy(update={"mtu": _OTHER_MTU}))
        effective_mtu: Any = links.effective["link"]["mtu"]
        require(
            effective_mtu == _OTHER_MTU,
            f"the link's MTU is {effective_mtu} after a change to {_OTHER_MTU}",
        )


def _host_untouched(subject: TopologySubject) -> None:
    before = HostResources.now(subject.environment.home, subject.token).found["interface"]

    def use(links: Links) -> None:
        new = HostResources.now(subject.environment.home, subject.token).found["interface"] - before
        require(not new, f"the host has new interfaces: {', '.join(sorted(new))}")

    subject.with_links(use)


def _close(subject: TopologySubject) -> None:
    home = subject.environment.home
    before = HostResources.now(home, subject.token)

    with host.tagged(subject.token), Journal(home.journal) as journal:
        links = built(subject.topology, journal)
        links.close()
        links.close()
        remaining = [str(resource) for resource in journal.registered]
        require(not remaining, f"still registered after close(): {', '.join(remaining[:5])}")
    host.check_no_leaks(before, home, subject.token)


def _killed(subject: TopologySubject) -> None:
    host.check_killed(subject.target, subject.environment.home, subject.token)


_S = TopologySubject
CHECKS: tuple[Check[TopologySubject], ...] = (
    Check[_S](
        "type",
        lambda s: declared.check_type(s.topology, Topology),
        "make a vtax.network.topology.Topology",
    ),
    Check[_S](
        "name",
        lambda s: declared.check_name(s.topology.name, s.target.shipped_names),
        "choose a name of lower-case letters, digits and hyphens",
        ("type",),
    ),
    Check[_S](
        "summary",
        lambda s: declared.check_line("summary", s.topology.summary),
        "say it in a line",
        ("type",),
    ),
    Check[_S](
        "settings-model",
        _settings_model,
        "derive from vtax.network.settings.LinkSettings; Field(default, description=...) for each setting",
        ("type",),
    ),
    Check[_S]("attachments", _attachments, "name attachments of the link setting", ("type",)),
    Check[_S](
        "settings-json",
        lambda s: declared.check_json(s.settings),
        "use types that pydantic writes as JSON and reads again",
        ("settings-model", "attachments"),
    ),
    Check[_S]("sizes", _sizes, "return numbers from 1 on", ("settings-model", "attachments")),
    Check[_S]("check-host", _host, "raise BadInput where it cannot be built", ("sizes",)),
    Check[_S]("build", _build, "return Links from wire(lab, settings)", ("check-host",)),
    Check[_S]("ends", _ends, "make the ends that guests, interfaces and natives name", ("build",)),
    Check[_S](
        "flows",
        _flows,
        "name ends by their roles, with addresses of network.lab.address",
        ("build",),
    ),
    Check[_S](
        "host-untouched",
        _host_untouched,
        "create interfaces in namespaces of the lab, none on the host",
        ("build",),
    ),
    Check[_S](
        "close", _close, "create all resources through the lab, which removes them", ("build",)
    ),
    Check[_S](
        "traffic",
        _traffic,
        "connect the interfaces of all ends to segments that reach each other",
        ("ends", "flows"),
    ),
    Check[_S]("mtu-change", _mtu, "put interfaces between segments into more_hops", ("traffic",)),
    Check[_S](
        "leaks-after-kill", _killed, "call lab.register(...) before creating a resource", ("close",)
    ),
)
