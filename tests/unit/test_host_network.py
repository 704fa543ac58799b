"""The proof that a run leaves the host's network alone cannot be had by looking at nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import host_network as unchanged
import pytest

from vtax.errors import CommandFailed, NetworkError
from vtax.host.process import Result


@pytest.fixture
def answering(
    monkeypatch: pytest.MonkeyPatch, installed: Callable[..., None]
) -> Callable[..., None]:
    """Makes every program print its own name; those named (`ip_rule`) do what is given."""

    def answer(**wrong: Result) -> None:
        def run(argv: Sequence[str], *, check: bool = True, **_: Any) -> Result:
            command = " ".join(argv)
            result = next(
                (r for name, r in wrong.items() if command.startswith(name.replace("_", " "))), None
            )
            result = result or Result(tuple(argv), 0, f"output of {command}\n", "")
            if check and result.status != 0:
                raise CommandFailed(command)
            return result

        monkeypatch.setattr(unchanged, "run", run)
        installed(but="")

    return answer


def test_every_view_is_in_the_text(answering):
    answering()
    text = unchanged.host_network()
    for expected in (
        "output of ip -d link",
        "output of ip rule",
        "output of iptables-save",
        "ip_forward: ",
    ):
        assert expected in text


@pytest.mark.parametrize(
    ("view", "name"), [("ip_-d_link", "links"), ("ip_address", "addresses"), ("ip_rule", "rules")]
)
def test_a_view_that_is_never_empty_may_not_be(view, name, answering):
    answering(**{view: Result((), 0, " \n", "")})
    with pytest.raises(NetworkError, match=f"shows no {name}"):
        unchanged.host_network()


def test_what_a_bridge_counts_down_is_no_change(answering):
    seen = []
    for left in ("   0.09", " 299.09"):
        link = f"4: docker0: <UP>\n    bridge stp_state 0 hello_timer    0.00 gc_timer {left} vlan_filtering 0\n"
        answering(**{"ip_-d_link": Result((), 0, link, "")})
        seen.append(unchanged.host_network())
    assert seen[0] == seen[1]
    assert "stp_state 0" in seen[0]
    assert "vlan_filtering 0" in seen[0]


def test_a_view_that_cannot_be_read_is_an_error(answering):
    answering(ip_route=Result((), 1, "", "no"))
    with pytest.raises(CommandFailed):
        unchanged.host_network()


def test_a_firewall_that_the_kernel_lacks_is_shown_as_its_program_says(answering):
    answering(**{"iptables-save": Result((), 1, "", "Protocol not supported")})
    assert "== iptables\nProtocol not supported" in unchanged.host_network()


def test_without_the_program_there_is_no_proof(installed, answering):
    answering()
    installed()
    with pytest.raises(NetworkError, match="without the program ip"):
        unchanged.host_network()
