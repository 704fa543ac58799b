"""The hosts of a campaign while `vtax campaign run` follows them: a line each, in one place of a terminal."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

from vtax.cli.language import translate
from vtax.cli.output import notify
from vtax.cli.streams import StandardError
from vtax.foreign_text import one_line
from vtax.units import format_count, format_duration

if TYPE_CHECKING:
    from vtax.campaign.controller import Controller
    from vtax.campaign.host_record import CampaignHost

_SEEN_FIRST = ("failed", "given-up", "refused", "unreachable", "busy", "running")
"""States of which the hosts are shown where a terminal has no room for all."""


class HostLines:
    """A line for each host on stderr: on a terminal in place, elsewhere whenever its state, block or a failure is new."""

    def __init__(self, controls: Controller) -> None:
        stream = sys.stderr
        self._terminal = stream if isinstance(stream, StandardError) and stream.isatty() else None
        self._controls = controls
        self._seen: dict[str, tuple[str, ...]] = {}

    def close(self) -> None:
        """Leave nothing of them on the terminal."""
        if self._terminal:
            self._terminal.status_line("")

    def show(self) -> None:
        """Show the hosts as they are now."""
        hosts = [host for host in self._controls.hosts.values() if not host.is_skipped]
        if self._terminal:
            self._terminal.status_line("\n".join(self._format_lines(hosts)))
            return
        for host in hosts:
            cells = self._cells(host)
            key = (*cells[1:4], cells[5])
            if self._seen.get(host.name) != key:
                self._seen[host.name] = key
                notify(", ".join(filter(None, cells)))

    def _format_lines(self, hosts: list[CampaignHost]) -> list[str]:
        """Return a line for as many hosts as there is room for, and one for the others."""
        columns, rows = shutil.get_terminal_size()
        room = max(rows - 2, 1)
        hidden_count = 0
        if len(hosts) > room:
            hidden_count = len(hosts) - room
            hosts = sorted(hosts, key=_order)[:room]
        cells = [self._cells(host) for host in hosts]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = []
        for row in cells:
            padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=True) if width]
            lines.append("  ".join(padded).rstrip()[: columns - 1])
        if hidden_count:
            lines.append(f"({format_count(hidden_count, 'host')} more)")
        return lines

    def _cells(self, host: CampaignHost) -> tuple[str, ...]:
        """Return name, state, session, block, time left, and what went wrong last."""
        session = host.running or (host.sessions[-1] if host.sessions else None)
        number = block = time_left = failure = ""
        if session is not None:
            number = f"session {session.number}" if session.number else translate("canary")
            failure = session.last_failure
        if session is not None and host.running:
            places = [str(place) for place in (session.block, session.blocks) if place is not None]
            block = f"block {'/'.join(places)}" if places else ""
            time_left = self._time_left(host)
        problem = str(host.reason) or failure
        is_prepared = host.state == "new" and host.name in self._controls.asked
        return (
            one_line(host.name, 40),
            translate("being prepared") if is_prepared else translate(host.state),
            number,
            block,
            time_left,
            one_line(problem),
        )

    def _time_left(self, host: CampaignHost) -> str:
        """Return the time left by what a host said last, less the time since then."""
        if host.running is None or host.running.left_s is None or host.at is None:
            return ""
        left_s = host.running.left_s - (self._controls.now() - host.at)
        return f"about {format_duration(max(left_s, 0.0))} left"


def _order(host: CampaignHost) -> tuple[int, str]:
    is_first = host.state in _SEEN_FIRST
    return (_SEEN_FIRST.index(host.state) if is_first else len(_SEEN_FIRST), host.name)
