"""Servers of a trial: started before the client, stopped and tidied up after it, and what happens when they die."""

import sys
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from local_agent import LocalAgent

from vtax.benchmarks.base import Benchmark, Command, Context, Metric, Outcome, Parameters
from vtax.errors import GuestError
from vtax.guest.guest import Guest
from vtax.platforms import registry
from vtax.runner import lanes
from vtax.runner.parsers import Parsers
from vtax.runner.plan import PlannedCell
from vtax.runner.points import Point
from vtax.runner.trial import Endpoint, Lane, run_trial

LISTEN = "import socket, sys, time; s = socket.create_server(('127.0.0.1', {port})); print('up', flush=True); {then}"


class Served(Benchmark):
    """A server and a client that are lines of Python and of shell."""

    name = title = tool = "served"
    packages = ("served-server", "served-client")
    needs_network = True
    Parameters = Parameters
    work = None
    metrics = (Metric("figure", "1", "higher", primary=True),)
    version_argv = ("true",)

    def __init__(self, server, client, after):
        self.server, self.client, self.after = server, client, after

    def commands(self, parameters, context):
        argv = (sys.executable, "-c", LISTEN.format(port=context.flow, then=self.server))
        server = Command("server", argv, ready_port=context.flow, after=self.after)
        argv = self.client if isinstance(self.client, tuple) else ("sh", "-c", self.client)
        return (server, Command("client", argv, place="peer"))

    def expected_s(self, parameters, context):
        return 1.0

    def parse(self, parameters, context, results):
        assert results["client"].status == 0
        return Outcome({"figure": float(results["client"].stdout)})


@pytest.fixture
def trial(tmp_path, free_port):
    """Run a trial with these lines; a file shows that the server's clean-up has run."""

    def run(server="time.sleep(60)", client="echo 7", after=()):
        benchmark = Served(server, client, after or (("touch", str(tmp_path / "tidied")),))
        point = Point("point", "served", benchmark, Parameters(), "", None)
        cell = PlannedCell("cell", registry.get("native"), point)
        with LocalAgent() as one, LocalAgent() as other:
            running = SimpleNamespace(
                is_remote=False,
                host_cpu_s=lambda: None,
                parts=(),
                throttling=dict,
                oom_kills=lambda has_ended=False: None,
                is_machine=False,
            )
            guest, peer = (Endpoint(running, _greeted(agent)) for agent in (one, other))
            lane = Lane(Context(1, 2**29, flow=free_port), {"guest": guest, "peer": peer})
            with Parsers() as parsers:
                return run_trial(parsers, cell, [lane], {"guest": guest, "peer": peer}, None, 20.0)

    return run


@pytest.fixture
def free_port():
    import socket

    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


def _greeted(agent) -> Guest:
    agent.guest.hello(20.0)
    return agent.guest


def test_a_server_in_the_guest_serves_a_client_at_the_peer_and_is_tidied_up_after(trial, tmp_path):
    result = trial()
    assert (result.error, result.outcome.values) == ("", {"figure": 7.0})
    assert result.results["server"].stdout == "up\n"
    assert (tmp_path / "tidied").exists()


def test_a_server_that_stays_serves_every_trial_that_needs_the_same(free_port):
    def commands(stays):
        argv = (sys.executable, "-c", LISTEN.format(port=free_port, then="time.sleep(60)"))
        yield Command("server", argv, ready_port=free_port, stays=stays)
        yield Command("client", ("true",))

    with LocalAgent() as agent:
        end, kept, handles = Endpoint(None, _greeted(agent)), lanes.KeptServers(), []
        start = end.guest.start
        end.guest.start = lambda *a, **k: handles.append(start(*a, **k)) or handles[-1]

        def measure(stays, kept=kept):
            benchmark = SimpleNamespace(commands=lambda *_: tuple(commands(stays)))
            point = SimpleNamespace(
                benchmark=benchmark,
                parameters=None,
                colocation=SimpleNamespace(guests=1, is_counted=False),
            )
            run = lanes.LaneRun(Lane(Context(1, 2**29), {"guest": end}), point)
            lanes.run_lanes([run], 20.0, nullcontext(), nullcontext({}), kept)
            return run.results

        assert "server" not in measure(True)
        measure(True)
        assert (len(handles), end.guest.running(handles[0])) == (1, True)
        assert measure(False)["server"].stdout == "up\n"  # the port was free
        assert len(handles) == 2
        assert not agent_knows(end.guest, handles[0])
        assert measure(True, None)["server"].stdout == "up\n"  # nobody keeps it
        assert not agent_knows(end.guest, handles[2])


def agent_knows(guest, handle):
    try:
        guest.running(handle)
    except GuestError:
        return False
    return True


def test_what_a_command_makes_is_gone_before_it_and_after_it(tmp_path):
    file, directory = tmp_path / "file", tmp_path / "directory"
    file.write_text("old")
    (directory / "below").mkdir(parents=True)
    with LocalAgent() as agent:
        guest = _greeted(agent)
        assert guest.remove([str(file), str(directory), str(tmp_path / "none")]) == [str(directory)]
        assert not file.exists()
        makes = (str(file), str(directory))
        command = Command("single", ("true",), makes=makes, before=(("mkdir", str(directory)),))
        lanes._prepare(guest, command)
        assert list(directory.iterdir()) == []
        lanes._tidy(guest, command)
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_dies_fails_its_trial_with_its_last_words(trial):
    dies = "time.sleep(0.3); sys.stderr.write('disk is\\x1b full\\n'); sys.exit(4)"
    result = trial(dies, "sleep 1; echo 7")
    assert "ended with status 4 in the trial" in result.error
    assert "disk is" in result.error
    assert "\x1b" not in result.error
    assert result.results["server"].stderr.startswith("disk is")


def test_its_death_is_reported_rather_than_the_failure_of_its_client(trial):
    result = trial("time.sleep(0.2); sys.exit('out of memory')", "sleep 0.5; echo lost >&2; exit 1")
    assert "ended with status 1 in the trial" in result.error
    assert "out of memory" in result.error


def test_a_server_that_dies_before_it_listens_is_reported_with_its_words(trial, monkeypatch):
    monkeypatch.setattr(
        sys.modules[__name__], "LISTEN", "import sys; sys.exit('no such {port} directory'); {then}"
    )
    result = trial()
    assert "ended with status 1 in the trial" in result.error
    assert "directory" in result.error


def test_a_preparation_that_is_killed_at_its_timeout_is_reported_with_it(trial, monkeypatch):
    monkeypatch.setattr(lanes, "PREPARE_TIMEOUT_S", 0.2)
    assert "sleep 60 killed after 0.2 s" in trial(after=(("sleep", "60"),)).error


def test_a_server_that_ends_well_while_its_client_runs_fails_the_trial(trial):
    result = trial("print('that was all'); time.sleep(0.2)", "sleep 1; echo 7")
    assert "ended with status 0 before its client had ended" in result.error
    assert "that was all" in result.error


def test_a_server_that_goes_into_the_background_fails_the_trial(trial):
    result = trial("import os; os.fork() and os._exit(0); time.sleep(2)", "sleep 0.5; echo 7")
    assert "ended with status 0 before its client had ended" in result.error


def test_a_server_of_one_client_that_ends_with_it_is_no_failure(trial, free_port):
    serves_one = "s.accept()[0].recv(1)"
    connects = (
        f"import socket; socket.create_connection(('127.0.0.1', {free_port})).close(); print(7)"
    )
    assert trial(serves_one, (sys.executable, "-c", connects)).error == ""


def test_a_tool_that_a_machine_lacks_is_named_with_its_packages(trial):
    result = trial(client=("no-such-tool", "--fast"))
    assert "no such program: no-such-tool" in result.error
    assert "apt-get install served-server served-client" in result.error
