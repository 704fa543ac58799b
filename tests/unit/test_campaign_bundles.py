"""Bundles that come back: each is loaded once, one of another campaign not at all, by Ansible or by hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from a_run import DECLARED, FAILED, begin, fill, trial
from answering_hosts import SETTINGS, campaign_in
from command_line import invoked, output_of, refusal

from vtax.campaign import collecting
from vtax.campaign.answers import settled
from vtax.campaign.by_hand import load_directory, slurm_line, write_directory
from vtax.campaign.collecting import Loader, run_name
from vtax.campaign.directory import Campaign
from vtax.campaign.host_record import CampaignHost, HostSession, Reason
from vtax.campaign.making import check_study, study_called
from vtax.campaign.pack import write_members
from vtax.campaign.prepare import IMAGE, PROGRAM, SHORT, WHEELS, Manifest
from vtax.campaign.settings import Wanted
from vtax.errors import BadInput, StoreError
from vtax.host.digest import sha256_of_file
from vtax.store.bundle import as_text, write_bundle
from vtax.store.bundle_lines import MAX_BYTES
from vtax.store.campaigns import CampaignSession, measured_sessions
from vtax.store.hosts import IMAGE_DIGEST, host_id
from vtax.store.store import Store
from vtax.store.transfer import rows_of
from vtax.study.load import load, load_smaller

pytestmark = pytest.mark.slow

STUDY = 'name = "mine"\nplatforms = ["native"]\n[[benchmark]]\nname = "sysbench-cpu"\n'
FACTS = {"cpu": "Some CPU", "machine_id": "m1", "hardware_id": "d1", IMAGE_DIGEST: "cd" * 32}


@pytest.fixture
def campaign(tmp_path: Path) -> Campaign:
    """A campaign of a small study."""
    made = campaign_in(tmp_path / "c")
    made.study.parent.mkdir()
    write_study(made, STUDY)
    return made


def write_study(campaign: Campaign, text: str) -> None:
    """Write the study of a campaign, and its pack."""
    campaign.study.write_text(text)
    manifest = Manifest("0.1.0", "x86_64", "study/mine.toml", "4f1d0c77aa31", "cd" * 32, {}, {})
    write_members(
        campaign.pack, manifest, dict.fromkeys(("study/mine.toml", IMAGE, WHEELS), campaign.study)
    )


@pytest.fixture
def measured(tmp_path, campaign):
    """Writes the bundle of a run that a host measured; what is given changes the run."""

    def write(file: str = "run.vtax.gz", status: str = "finished", **changes: Any) -> Path:
        declared = load(str(campaign.study)).study.declared()
        given = {
            "study": "mine",
            "declared": declared,
            "image_key": "4f1d0c77aa31",
            "host": FACTS,
            "tags": ["host-run-mine-1a2b-s1"],
        }
        target = tmp_path / "there" / file
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(bundle_of(status, json.dumps({**given, **changes})))
        return target

    return write


@cache
def bundle_of(status: str, given: str) -> bytes:
    """The bundle of a run that began with what is given, as JSON, and ended so; `fruitless`: every trial failed."""
    with (
        tempfile.TemporaryDirectory() as directory,
        Store.open(Path(directory) / "store.sqlite") as there,
    ):
        run = begin(there, **json.loads(given))
        if status == "fruitless":
            for position, cell in enumerate(run.cells):
                failed = {"status": "failed", "error": FAILED, "values": {}}
                run.add_trial(trial(cell, position=position, **failed))
            run.finish("finished", "", 1_700_000_300.0)
        else:
            fill(run, blocks=1, finishes=status == "finished")
        if status not in ("finished", "fruitless"):
            run.finish(status, "stopped", 1_700_000_300.0)
        target = Path(directory) / "run.vtax.gz"
        with there.engine.connect() as connection:
            write_bundle(target, as_text(rows_of(connection, run.id)))
        return target.read_bytes()


def ended(bundle: Path, state: str = "done") -> tuple[CampaignHost, HostSession]:
    """A host whose session has that bundle."""
    session = HostSession(1, "mine-1a2b-s1", state, bundle_sha256=sha256_of_file(bundle))  # type: ignore[arg-type]
    host = CampaignHost("h1", identity=host_id(FACTS), sessions=(session,))
    return host, session


def test_a_bundle_is_loaded_once(campaign, measured, store):
    bundle = measured()
    host, session = ended(bundle)
    content = bundle.read_bytes()
    for _ in range(2):  # a controller that was killed before it wrote that down
        bundle.write_bytes(content)
        found = Loader(campaign, store, "here").load(host, session, bundle).session(1)
        assert (found.state, found.run, found.bundle) == (
            "collected",
            "mine-h1-1",
            "bundles/h1/mine-1a2b-s1.vtax.gz",
        )
        assert [run.name for run in store.runs()] == ["mine-h1-1"]
        assert store.open_run("mine-h1-1").identity == found.run_identity
        assert (campaign.root / found.bundle).is_file()
        assert measured_sessions(store.engine, "mine-1a2b") == [
            CampaignSession("h1", 1, "mine-h1-1", found.run_identity)
        ]


@pytest.mark.parametrize(
    ("changes", "code", "state"),
    [
        ({"study": "other"}, "other-study", "failed"),
        ({"declared": DECLARED}, "other-study", "failed"),
        ({"vtax_version": "0.0.9"}, "version", "failed"),
        ({"image_key": "000000000000"}, "digest", "failed"),
        ({"host": {**FACTS, IMAGE_DIGEST: "00" * 32}}, "digest", "failed"),
    ],
)
def test_a_bundle_of_another_campaign_does_not_enter_the_store(
    campaign, measured, store, changes, code, state
):
    bundle = measured(**changes)
    host, session = ended(bundle)
    found = Loader(campaign, store, "here").load(host, session, bundle).session(1)
    assert (found.state, found.reason.code, found.run) == (state, code, "")
    assert store.runs() == []


def test_a_campaign_that_was_changed_refuses_none_of_its_bundles(campaign, measured, store, golden):
    bundle = measured()
    made = campaign.study.read_text()
    campaign.study.write_text(made + "# better words\n")
    with pytest.raises(BadInput) as caught:
        Loader(campaign, store, "here")
    golden(str(caught.value))
    campaign.study.write_text(made)
    later = Campaign(campaign.root, campaign.settings.model_copy(update={"vtax_version": "0.0.9"}))
    with pytest.raises(BadInput, match=r"vtax 0\.0\.9 made this campaign"):
        Loader(later, store, "here")
    campaign.pack.write_bytes(b"no pack")
    with pytest.raises(BadInput, match="pack is damaged"):
        Loader(campaign, store, "here")
    assert bundle.exists()


def test_what_was_refused_and_is_loaded_later_has_not_failed(campaign, measured, store):
    bundle = measured()
    host, session = ended(bundle, "failed")
    refused = replace(session, reason=Reason("other-study", "the bundle is of other settings"))
    found = Loader(campaign, store, "here").load(host, refused, bundle).session(1)
    assert (found.state, found.reason.code) == ("collected", "")
    failed = measured("failed.vtax.gz", status="failed", name="tour-2")
    found = Loader(campaign, store, "here").load(*ended(failed, "failed"), failed).session(1)
    assert (found.state, found.run) == ("failed", "mine-h1-1-imported")


VERDICT = STUDY + '[design]\nstop = "verdict"\n'


def test_a_study_that_stops_by_its_figures_needs_a_number_of_blocks(campaign, measured, store):
    write_study(campaign, VERDICT)
    with pytest.raises(BadInput, match="cannot be combined") as refused:
        check_study(load_smaller(str(campaign.study), "", 0), Wanted())
    assert "--blocks N" in refused.value.hint
    check_study(load_smaller(str(campaign.study), "", 30), Wanted())
    fixed = Campaign(campaign.root, campaign.settings.model_copy(update={"blocks": 30}))
    declared = load_smaller(str(campaign.study), "", 30).study.declared()
    assert (declared["design"]["stop"], declared["design"]["blocks"]) == ("fixed", 30)
    for blocks, state in ((29, "failed"), (30, "collected")):
        bundle = measured(
            f"{blocks}.vtax.gz",
            declared=load_smaller(str(campaign.study), "", blocks).study.declared(),
        )
        found = Loader(fixed, store, "here").load(*ended(bundle), bundle)
        assert found.session(1).state == state


def test_a_host_that_measures_in_sequential_order_does_so_once(campaign):
    write_study(campaign, STUDY + '[design]\nstop = "fixed"\norder = "sequential"\n')
    check_study(load_smaller(str(campaign.study), "", 0), Wanted())
    with pytest.raises(BadInput, match="cannot be combined"):
        check_study(load_smaller(str(campaign.study), "", 0), Wanted(sessions=2))


def test_hosts_are_rebooted_with_consent_alone():
    boots = load_smaller("mitigations", "", 0)  # its sessions are of its boots
    check_study(boots, Wanted())
    check_study(boots, Wanted(inventory="hosts.yml", reboot=True))
    with pytest.raises(BadInput, match="rebooted") as refused:
        check_study(boots, Wanted(inventory="hosts.yml"))
    assert "--reboot" in refused.value.hint


def test_a_campaign_of_such_a_study_is_made_with_blocks(
    tmp_path, monkeypatch, taken_for_root, private_home
):
    def wanted(home: Any, recipe: Any, source: str) -> None:
        raise BadInput("no image yet")

    monkeypatch.setattr("vtax.cli.campaign.built_image", wanted)
    new = ("campaign", "new", "sandboxes", "-o", str(tmp_path / "new"))
    assert "--blocks N" in str(refusal(*new))
    assert "no image yet" in str(refusal(*new, "--blocks", "30"))


def test_a_bundle_of_another_host_than_its_name_says_is_refused(campaign, measured, store):
    bundle = measured(host={**FACTS, "machine_id": "m2"})
    host, session = ended(bundle)
    assert (
        Loader(campaign, store, "here").load(host, session, bundle).session(1).reason.code
        == "other-host"
    )
    assert store.runs() == []


def test_a_damaged_bundle_is_brought_again_and_has_failed_then(campaign, measured, store):
    bundle = measured()
    host, session = ended(bundle)
    content = bundle.read_bytes()
    bundle.write_bytes(content[:-10])
    loader = Loader(campaign, store, "here")
    for arrived in (bundle, bundle.with_name("nothing")):
        found = loader.load(host, session, arrived).session(1)
        assert (found.state, found.reason.code, found.run) == ("done", "damaged-bundle", "")
    failed = loader.load(host, found, bundle).session(1)
    assert (failed.state, failed.reason.code, failed.damaged) == ("failed", "damaged-bundle", 2)
    bundle.write_bytes(content)
    again = loader.load(host, found, bundle).session(1)
    assert (again.state, again.reason.code) == ("collected", ""), (
        "the whole one has no reason any more"
    )
    bundle.write_bytes(b"no bundle")
    found = loader.load(*ended(bundle), bundle).session(1)
    assert found.reason.code == "damaged-bundle"


def test_a_store_that_refuses_a_bundle_refuses_no_other(
    campaign, measured, store, tmp_path, monkeypatch
):
    bundle = measured("node7.vtax.gz")
    measured("node8.vtax.gz", host={**FACTS, "machine_id": "m2"}, name="tour-3")
    honest, host, session = collecting.import_bundle, *ended(bundle)

    def refusing(engine: Any, content: Any, *given: Any, **named: Any) -> Any:
        if content.path == bundle:
            raise StoreError("a constraint failed")
        return honest(engine, content, *given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(collecting, "import_bundle", refusing)
        found = Loader(campaign, store, "here").load(host, session, bundle)
        kept = found.session(1)
        assert (kept.state, kept.reason.code, kept.bundle_sha256) == (
            "done",
            "not-stored",
            session.bundle_sha256,
        )
        by_hand = [*load_directory(campaign, tmp_path / "there", Loader(campaign, store, "here"))]
        assert [(each.is_new, bool(each.reason)) for each in by_hand] == [
            (False, True),
            (True, False),
        ]
    again = Loader(campaign, store, "here").load(found, kept, bundle).session(1)
    assert (again.state, again.reason.code) == ("collected", "")


def test_what_was_interrupted_keeps_that_state(campaign, measured, store):
    bundle = measured(status="interrupted")
    found = Loader(campaign, store, "here").load(*ended(bundle, "interrupted"), bundle).session(1)
    assert (found.state, found.run) == ("interrupted", "mine-h1-1")


@pytest.mark.parametrize("state", ["failed", "done"])
def test_a_run_whose_every_trial_failed_is_brought_and_has_failed(
    campaign, measured, store, state, tmp_path
):
    bundle = measured(status="fruitless")
    host = Loader(campaign, store, "here").load(*ended(bundle, state), bundle)
    found = host.session(1)
    assert (found.state, found.run) == ("failed", "mine-h1-1")
    assert measured_sessions(store.engine, "mine-1a2b") == []
    campaign.keep(settled(host, campaign.settings, 0.0))
    assert "has 0 measured sessions" in refusal("campaign", "report", str(campaign.root)).what


def test_by_hand_a_run_whose_every_trial_failed_has_failed_too(campaign, measured, store, tmp_path):
    measured("node7-mine-1a2b-s1.vtax.gz", status="fruitless")
    invoked("campaign", "load", str(campaign.root), str(tmp_path / "there"))
    (host,) = campaign.hosts()
    assert (host.state, host.reason.code) == ("failed", "run-failed")
    assert [run.name for run in store.runs()] == ["tour-1"]


def test_bundles_that_came_by_hand_are_loaded_once(campaign, measured, store, tmp_path):
    measured("node7-mine-1a2b-s1.vtax.gz")
    measured("copy-of-it.vtax.gz", tags=["host-run-mine-1a2b-s2"], name="tour-2")
    measured("node8-mine-1a2b-s1.vtax.gz", host={**FACTS, "machine_id": "m2"}, name="tour-3")
    measured("stranger.vtax.gz", study="other")
    measured("stopped.vtax.gz", status="interrupted", name="tour-4")
    measured("nobody.vtax.gz", host={IMAGE_DIGEST: "cd" * 32}, name="tour-5")
    printed = invoked("campaign", "load", str(campaign.root), str(tmp_path / "there"))
    assert printed.exit_code != 0
    assert "bundles loaded: 3" in printed.output
    assert {run.name for run in store.runs()} == {"tour-1", "tour-2", "tour-3"}
    hosts = {
        host.name: [(each.number, each.run) for each in host.sessions] for host in campaign.hosts()
    }
    assert hosts.pop("node8") == [(1, "tour-3")]
    (sessions,) = hosts.values()
    assert sorted(run for _, run in sessions) == ["tour-1", "tour-2"]
    noted = measured_sessions(store.engine, "mine-1a2b")
    assert sorted(each.run for each in noted) == ["tour-1", "tour-2", "tour-3"]
    parsed: list[Path] = []
    loader = Loader(campaign, store, "here")
    loader.add = lambda path, check: parsed.append(path) or Loader.add(loader, path, check)  # type: ignore
    again = [*load_directory(campaign, tmp_path / "there", loader)]
    assert sorted(path.name for path in parsed) == [
        "nobody.vtax.gz",
        "stopped.vtax.gz",
        "stranger.vtax.gz",
    ]
    assert not [each for each in again if each.is_new]
    assert len(store.runs()) == 3
    with Store.open(tmp_path / "another.sqlite") as other:  # which the directory knows nothing of
        elsewhere = [*load_directory(campaign, tmp_path / "there", Loader(campaign, other, "here"))]
        assert sum(each.is_new for each in elsewhere) == 3
        assert {
            (each.host, each.session) for each in measured_sessions(other.engine, "mine-1a2b")
        } == {(each.host, each.session) for each in noted}


@pytest.mark.timeout(30)
def test_what_is_no_file_among_the_bundles_is_refused_and_the_others_are_loaded(
    campaign, measured, store, tmp_path
):
    measured("node7.vtax.gz")
    there = tmp_path / "there"
    os.mkfifo(there / "a.vtax.gz")
    (there / "b.vtax.gz").mkdir()
    (there / "c.vtax.gz").symlink_to("/dev/zero")
    (there / "d.vtax.gz").symlink_to(tmp_path / "nothing")
    with (there / "e.vtax.gz").open("wb") as huge:
        huge.truncate(MAX_BYTES + 1)
    found = [*load_directory(campaign, there, Loader(campaign, store, "here"))]
    assert {Path(each.file).name[0]: bool(each.reason) for each in found} == {
        **dict.fromkeys("abcde", True),
        "n": False,
    }
    assert [each.name for each in store.runs()] == ["tour-1"]


def test_bundles_in_directories_deeper_than_python_recurses_are_found(
    campaign, measured, store, tmp_path
):
    deep = tmp_path / "there" / "/".join(["d"] * 1500)
    subprocess.run(["mkdir", "-p", str(deep)], check=True)
    measured("node7.vtax.gz").rename(deep / "node7.vtax.gz")
    try:
        (found,) = load_directory(campaign, tmp_path / "there", Loader(campaign, store, "here"))
    finally:
        subprocess.run(["rm", "-rf", str(tmp_path / "there")], check=True)
    assert found.is_new


def test_a_store_that_goes_away_in_a_load_is_said_once(
    campaign, measured, store, tmp_path, monkeypatch
):
    for number in (1, 2, 3):
        measured(
            f"node{number}.vtax.gz",
            host={**FACTS, "machine_id": f"m{number}"},
            name=f"tour-{number}",
        )
    honest, honest_noted = collecting.import_bundle, collecting.measured_sessions
    gone: list[StoreError] = []

    def until_gone(engine: Any, content: Any, *given: Any, **named: Any) -> Any:
        if content.path.name.startswith("node2"):
            gone.append(StoreError("the store cannot be reached"))
        return (
            honest(engine, content, *given, **named) if not gone else (_ for _ in ()).throw(gone[0])
        )

    def noted(*given: Any) -> Any:
        return honest_noted(*given) if not gone else (_ for _ in ()).throw(gone[0])

    monkeypatch.setattr(collecting, "import_bundle", until_gone)
    monkeypatch.setattr(collecting, "measured_sessions", noted)
    printed = invoked("campaign", "load", str(campaign.root), str(tmp_path / "there"))
    assert str(printed.exception) == "the store cannot be reached"
    assert "bundles loaded: 1" in printed.output
    assert "node3" not in printed.output


def test_the_directory_for_a_scheduler_holds_what_it_needs(campaign, tmp_path):
    scaled = Campaign(
        campaign.root,
        campaign.settings.model_copy(update={"scale": "quick", "blocks": 12, "trust": True}),
    )
    write_directory(scaled, tmp_path / "it's here")
    script = tmp_path / "it's here/run-here.sh"
    assert subprocess.run(["sh", "-n", str(script)], check=False).returncode == 0
    text = script.read_text()
    assert SETTINGS["pack_digest"] in text
    assert "--scale quick --blocks 12 --trust" in text
    assert (tmp_path / "it's here/pack.vtax-pack").read_bytes() == campaign.pack.read_bytes()
    assert len((tmp_path / "it's here/README").read_text().splitlines()) <= 10
    assert slurm_line(tmp_path).startswith("sbatch --nodes=")
    again = invoked("campaign", "pack", str(campaign.root), "-o", str(tmp_path / "it's here"))
    assert "is there already" in str(again.exception)


@pytest.mark.parametrize("status", [0, 75])
def test_the_script_names_the_host_and_ends_as_the_run_did(campaign, tmp_path, status):
    write_directory(campaign, tmp_path / "here")
    vtax = tmp_path / "vtax"
    vtax.write_text(
        '#!/bin/sh\n[ "$2" = check ] && echo \'{"identity": "m1-d1"}\' && exit\n'
        f'mkdir -p "$VTAX_HOME/host-runs/$3"; echo > "$VTAX_HOME/host-runs/$3/run.vtax.gz"; exit {status}\n'
    )
    vtax.chmod(0o755)
    place = tmp_path / "home/packs" / SETTINGS["pack_digest"][:SHORT] / PROGRAM
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\n[ "$1" = -c ] && exec {sys.executable} "$@"\nmkdir -p {place.parent}; cp {vtax} {place}\n'
    )
    python.chmod(0o755)
    environment = {**os.environ, "VTAX_HOME": str(tmp_path / "home"), "VTAX_PYTHON": str(python)}
    done = subprocess.run(
        [tmp_path / "here/run-here.sh"], env=environment, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (status, b"")
    bundles = [each.name for each in (tmp_path / "here/bundles").iterdir()]
    assert bundles == [f"{os.uname().nodename}-m1-d1-mine-1a2b-s1.vtax.gz"]


@pytest.mark.parametrize("session", ["0", "-4", "s0", "01", "1000", "1 2"])
def test_what_is_no_session_is_refused_before_anything_is_done(campaign, tmp_path, session):
    write_directory(campaign, tmp_path / "here")
    script = tmp_path / "here/run-here.sh"
    done = subprocess.run(
        [script, session],
        env={"PATH": os.environ["PATH"], "VTAX_PYTHON": "/bin/false"},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout, session.encode() in done.stderr) == (
        os.EX_USAGE,
        b"",
        True,
    )


@pytest.mark.parametrize(
    ("tag", "number"),
    [
        ("7", 1),
        ("s7", 1),
        ("-4", 1),
        ("host-run-mine-1a2b-s0", 1),
        ("host-run-mine-1a2b-s-4", 1),
        ("host-run-other-s7", 1),
        ("host-run-mine-1a2b-s7", 7),
        ("host-run-mine-1a2b-s7.2", 7),
    ],
)
def test_only_the_tag_of_its_run_names_the_session_of_a_bundle(
    campaign, measured, store, tmp_path, tag, number
):
    measured("node7.vtax.gz", tags=[tag])
    [*load_directory(campaign, tmp_path / "there", Loader(campaign, store, "here"))]
    (host,) = campaign.hosts()
    assert [each.number for each in host.sessions] == [number]


@pytest.mark.parametrize("named", ["node7", "..", "a b", "n" * 61])
def test_a_host_is_called_as_its_bundle_says_where_that_is_a_name(
    campaign, measured, store, tmp_path, named
):
    identity = host_id(FACTS)
    measured(f"{named}-{identity}-mine-1a2b-s1.vtax.gz")
    [*load_directory(campaign, tmp_path / "there", Loader(campaign, store, "here"))]
    (host,) = campaign.hosts()
    assert host.name == ("node7" if named == "node7" else identity)


def test_a_state_is_printed_without_asking_a_host(campaign):
    campaign.keep(ended(campaign.pack)[0])
    assert "h1" in output_of("campaign", "status", str(campaign.root))
    assert "nothing" not in output_of("campaign", "status", str(campaign.root), "--json")


def test_without_an_inventory_no_host_can_be_asked(campaign):
    for verb in ("go", "collect", "abort"):
        assert "has no inventory" in str(invoked("campaign", verb, str(campaign.root)).exception)


def test_what_is_no_directory_of_bundles_is_refused_with_both_arguments(campaign, tmp_path):
    with pytest.raises(BadInput, match="is no directory") as refused:
        list(load_directory(campaign, tmp_path / "nothing", None))
    assert refused.value.hint == "vtax campaign load DIR BUNDLES"


def test_a_run_is_called_by_its_host_and_session(campaign, measured, store):
    bundle = measured()
    host, session = ended(bundle)
    host = replace(host, name="rack1-node03.dc1.example")
    study = campaign.settings.study_name
    loaded = Loader(campaign, store, "here").load(host, session, bundle).session(1)
    assert loaded.run == f"{study}-rack1-node03-1"
    assert [run.name for run in store.runs()] == [loaded.run]


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("web0", "tour-web0-2"),
        ("192.0.2.11", "tour-192-0-2-11-2"),
        ("a/b host!", "tour-a-b-host-2"),
        ("x" * 300, f"tour-{'x' * 32}-2"),
    ],
)
def test_names_of_runs_are_such_as_the_store_accepts(host, name):
    assert run_name("tour", host, 2) == name


def test_a_campaign_of_a_pack_is_named_after_its_study(tmp_path):
    manifest = Manifest("0", "", "study/tiny.toml", "none", "ab" * 32, {}, {})
    (tmp_path / "x").write_text("x")
    members = dict.fromkeys(("study/tiny.toml", IMAGE, WHEELS), tmp_path / "x")
    write_members(tmp_path / "a.vtax-pack", manifest, members)
    assert study_called(tmp_path / "a.vtax-pack") == "tiny"
    assert study_called(tmp_path / "mine.toml") == "mine"
