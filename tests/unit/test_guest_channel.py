"""The byte stream: deadlines hold, an ended stream is said, and the platform is asked what it knows."""

import os
import socket
import time

import pytest

from vtax.errors import GuestError
from vtax.guest.channel import Channel


@pytest.fixture
def pair():
    ours, stranger = socket.socketpair()
    fd = ours.detach()
    channel = Channel(fd, fd, diagnose=lambda: "  console: Kernel panic \n")
    yield channel, stranger
    channel.close()
    stranger.close()


def soon():
    return time.monotonic() + 0.05


def test_bytes_arrive_in_order_however_they_are_cut(pair):
    channel, stranger = pair
    stranger.sendall(b"abcdef")
    assert [channel.read(n, soon()) for n in (1, 0, 3, 2)] == [b"a", b"", b"bcd", b"ef"]


def test_silence_ends_at_the_deadline_with_what_the_platform_knows(pair):
    channel, stranger = pair
    stranger.sendall(b"ab")
    started_at = time.monotonic()
    with pytest.raises(GuestError, match="fell silent") as caught:
        channel.read(3, started_at + 0.05)
    assert 0.05 <= time.monotonic() - started_at < 1
    assert caught.value.where == "console: Kernel panic"


def test_a_closed_end_is_said(pair):
    channel, stranger = pair
    stranger.close()
    with pytest.raises(GuestError, match="closed its channel"):
        channel.read(1, soon())
    with pytest.raises(GuestError, match="closed its channel"):
        channel.write(b"x", soon())


def test_a_guest_that_does_not_read_holds_a_write_only_until_the_deadline(pair):
    channel, _ = pair
    with pytest.raises(GuestError, match="fell silent"):
        channel.write(bytes(10_000_000), soon())


def test_the_marker_is_found_across_reads_and_the_rest_is_kept(pair):
    channel, stranger = pair
    stranger.sendall(b"boot text <ma")
    with pytest.raises(GuestError, match="fell silent"):
        channel.skip_to(b"<mark>", 100, soon())
    stranger.sendall(b"rk>rest")
    assert channel.skip_to(b"<mark>", 100, soon()) == b"boot text "
    assert channel.read(4, soon()) == b"rest"


def test_a_closed_channel_refuses_and_closing_twice_is_harmless(pair):
    channel, _ = pair
    channel.close()
    channel.close()
    with pytest.raises(GuestError, match="is closed"):
        channel.read(1, soon())
    with pytest.raises(GuestError, match="is closed"):
        channel.write(b"x", soon())


def test_a_socket_that_never_appears_is_given_up(tmp_path):
    with pytest.raises(GuestError, match="no connection to"):
        Channel.to_unix_socket(
            tmp_path / "none", timeout_s=0.02, diagnose=lambda: "qemu: bad option"
        )


def test_a_socket_that_is_there_is_connected(tmp_path):
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        channel = Channel.to_unix_socket(path, timeout_s=5)
        stranger, _ = server.accept()
    channel.write(b"hi", soon())
    assert stranger.recv(2) == b"hi"
    stranger.close()
    channel.close()


def test_pipes_serve_as_well():
    there, back = os.pipe(), os.pipe()
    channel = Channel(back[0], there[1])
    channel.write(b"x", soon())
    os.write(back[1], os.read(there[0], 1))
    assert channel.read(1, soon()) == b"x"
    channel.close()
    os.close(there[0])
    os.close(back[1])
