"""The program of docs/add-a-benchmark.md, from its study file to figures, in a native guest."""

from __future__ import annotations

import json

import pytest
from doc_examples import ROOT
from support import needs_root, vtax

pytestmark = [needs_root, pytest.mark.usefixtures("image", "private_home")]


def example(language: str, beginning: str) -> str:
    page = (ROOT / "docs" / "add-a-benchmark.md").read_text()
    return page[page.index(f"```{language}\n{beginning}") :].split("\n", 1)[1].split("```")[0]


def test_the_documented_program_is_measured_after_consent(tmp_path):
    study = tmp_path / "mine.toml"
    study.write_text(
        example("toml", 'name = "my-hashing"').replace('["native", "podman"]', '["native"]')
    )
    (tmp_path / "hashing.py").write_text(example("py", "import hashlib"))
    refused = vtax("run", str(study), "--blocks", "1")
    assert refused.returncode == 2
    assert "program hashing" in refused.stderr
    made = vtax("run", str(study), "--blocks", "2", "--trust", "--json")
    assert made.returncode == 0, made.stderr
    raw = json.loads(vtax("show", "last", "--raw", "all", "--json").stdout)
    assert [trial["status"] for trial in raw["trials"]] == ["ok"] * 4
    assert all(
        "hashed" in output["stdout"] for trial in raw["trials"] for output in trial["outputs"]
    )


SERVED = """
name = "served"
platforms = ["native", "podman"]
[design]
blocks = 1
trials = 2
[[program]]
name = "echo"
files = ["echo.py"]
port = 5400
environment = { ROUNDS = "{rounds}" }
parameters = { rounds = 50 }
[program.argv]
client = ["python3", "{files}/echo.py", "{peer_address}", "{port}"]
server = ["python3", "{files}/echo.py", "serve", "{port}"]
[[program.metric]]
name = "rate"
unit = "1/s"
better = "higher"
pattern = "^rate ([0-9.]+)$"
[[benchmark]]
name = "echo"
"""
ECHO = """
import os, socket, sys, time
if sys.argv[1] == "serve":
    with socket.create_server(("", int(sys.argv[2]))) as server:
        while True:
            connection, _ = server.accept()
            with connection:
                while data := connection.recv(64):
                    connection.sendall(data)
connection = socket.create_connection((sys.argv[1], int(sys.argv[2])))
rounds, started = int(os.environ["ROUNDS"]), time.monotonic()
for _ in range(rounds):
    connection.sendall(b"x")
    assert connection.recv(64) == b"x"
print("rate", round(rounds / (time.monotonic() - started), 3))
"""


def test_a_client_and_its_server_are_measured_over_a_lab(tmp_path):
    (tmp_path / "served.toml").write_text(SERVED)
    (tmp_path / "echo.py").write_text(ECHO)
    made = vtax("run", str(tmp_path / "served.toml"), "--trust", "--json")
    assert made.returncode == 0, made.stderr
    trials = json.loads(vtax("show", "last", "--raw", "all", "--json").stdout)["trials"]
    assert [trial["status"] for trial in trials] == ["ok"] * 4
    assert {output["role"] for trial in trials for output in trial["outputs"]} == {
        "client",
        "server",
    }
