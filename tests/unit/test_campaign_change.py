"""`vtax campaign change` and `report`: hosts are drawn by a seed that is kept, and the answer is over hosts."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from click.testing import CliRunner, Result
from fleet import DAY_S, START, measure

from vtax.campaign.change import change_of, plan_change
from vtax.campaign.directory import FILE, Campaign
from vtax.campaign.host_record import CampaignHost, HostSession, Reason
from vtax.campaign.settings import Settings
from vtax.cli.main import group
from vtax.errors import BadInput, Busy
from vtax.host.home import Home
from vtax.store.campaigns import add_session
from vtax.store.store import Store

HOSTS = tuple(f"web{number}" for number in range(6))
FIRST = ("web0", "web3", "web5")


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A campaign of six hosts, which measured twice before a change and twice after it, and of one that never did."""
    root = tmp_path_factory.mktemp("measured")
    known = {
        "study": "tour.toml",
        "study_name": "tour",
        "pack_digest": "0" * 64,
        "image_key": "4f1d0c77aa31",
    }
    Settings(
        name="fleet",
        image_digest="0" * 64,
        vtax_version="0.1.0",
        created_at=START,
        sessions=4,
        **known,
    ).write(root / FILE)
    made = Campaign.open(root)
    with Store.open(root / "store.sqlite") as store:
        runs = measure(
            store,
            HOSTS,
            4,
            speed=lambda h, s, p: 0.9 if s > 2 and h in FIRST and p == "docker" else 1.0,
            facts=lambda h, s: {"kernel": "6.6" if s > 2 and h in FIRST else "6.1"},
        )
        for host, of in runs.items():
            for number, run in enumerate(of, 1):
                add_session(store.engine, "fleet", host, number, store.open_run(run).identity)
    for host in HOSTS:
        sessions = tuple(
            HostSession(number, f"fleet-s{number}", "collected", run=run)
            for number, run in enumerate(runs[host], 1)
        )
        made.keep(
            CampaignHost(
                host,
                group="old" if host < "web3" else "new",
                state="collected",
                sessions=sessions,
            )
        )
    made.keep(
        CampaignHost("web9", state="unreachable", reason=Reason("unreachable", "no route to host"))
    )
    return root


@pytest.fixture
def campaign(measured: Path, tmp_path: Path, private_home: Home) -> Campaign:
    """A copy of that campaign, with its runs in the store that commands use."""
    root = shutil.copytree(measured, tmp_path / "fleet")
    (root / "store.sqlite").rename(private_home.store_file)
    return Campaign.open(root)


def vtax(*words: str, fails: bool = False) -> Result:
    result = CliRunner().invoke(group, ["campaign", *words], standalone_mode=False)
    assert (result.exception is not None) == fails, result.output
    return result


def drawn(campaign: Campaign) -> tuple[str, ...]:
    found = change_of(Campaign.open(campaign.root))
    assert found is not None
    return found.first


def test_half_of_every_group_is_drawn_and_the_seed_is_kept(campaign):
    printed = vtax("change", str(campaign.root), "--what", "kernel", "--seed", "7").stdout.split()
    change = change_of(Campaign.open(campaign.root))
    assert change is not None
    assert (change.what, change.seed, list(change.first)) == ("kernel", 7, printed)
    assert len(printed) == 3
    assert vtax("change", str(campaign.root)).stdout.split() == printed
    again = vtax("change", str(campaign.root), "--what", "kernel", fails=True)
    assert "plans a change already" in str(again.exception)


@pytest.mark.parametrize("state", ["refused", "failed", "given-up"])
def test_a_host_that_cannot_measure_is_not_drawn(campaign, state):
    campaign.keep(replace(campaign.host("web1"), state=state))
    found: set[str] = set()
    for seed in range(8):
        campaign.settings.model_copy(update={"change": None}).write(campaign.root / FILE)
        found.update(plan_change(Campaign.open(campaign.root), "kernel", seed=seed).first)
    assert found == {*HOSTS} - {"web1"}, "nor is web9, which never answered"


def test_a_seed_is_made_where_none_is_given(campaign):
    vtax("change", str(campaign.root), "--what", "kernel")
    change = change_of(Campaign.open(campaign.root))
    assert change is not None
    assert change.seed is not None
    assert len(change.first) == 3


def test_what_was_carried_out_is_written_down_once_and_in_order(campaign):
    root = str(campaign.root)
    assert "plans no change" in str(vtax("change", root, "--now", fails=True).exception)
    vtax("change", root, "--what", "kernel", "--hosts", ",".join(FIRST))
    assert "have not changed yet" in str(vtax("change", root, "--rest", fails=True).exception)
    assert "the first hosts have changed; sessions" in vtax("change", root, "--now").output
    assert "written down already" in str(vtax("change", root, "--now", fails=True).exception)
    assert FIRST[0] not in vtax("change", root, "--rest").output, "these have not changed now"
    change = change_of(Campaign.open(campaign.root))
    assert change is not None
    assert (change.first, change.seed) == (FIRST, None)
    assert change.when is not None
    assert change.rest is not None
    assert change.when <= change.rest


def test_what_another_one_wrote_before_the_lock_was_free_is_kept(campaign, monkeypatch):
    honest = Campaign.lock

    def late(self: Campaign) -> Any:
        self.settings.model_copy(update={"sessions": 7}).write(self.root / FILE)
        return honest(self)

    monkeypatch.setattr(Campaign, "lock", late)
    vtax("change", str(campaign.root), "--what", "kernel", "--hosts", ",".join(FIRST))
    assert Campaign.open(campaign.root).settings.sessions == 7


@pytest.mark.parametrize(
    ("table", "place"),
    [
        ({"first": ["web0"]}, "change.what"),
        ({"what": "kernel"}, "change.first"),
        ({"what": "kernel", "first": ["web0", "weg"]}, "change"),
        ({"what": "kernel", "first": ["web0", "web0"]}, "change"),
        ({"what": "kernel", "first": [*HOSTS, "web9"]}, "change"),
        ({"what": "kernel", "first": ["web0"], "when": "soon"}, "change.when"),
        ({"what": "kernel", "first": ["web0"], "seed": "x"}, "change.seed"),
        ({"what": "kernel", "first": ["web0"], "who": "x"}, "change.who"),
    ],
)
def test_a_wrong_table_is_refused_by_its_key(campaign, table, place):
    file = campaign.root / FILE
    file.write_text(file.read_text() + tomli_w.dumps({"change": table}))
    with pytest.raises(BadInput) as caught:
        change_of(Campaign.open(campaign.root))
    assert caught.value.where.endswith(place)


def carry_out(campaign: Campaign) -> None:
    """Have the first hosts changed between the second sessions and the third."""
    vtax("change", str(campaign.root), "--what", "kernel", "--hosts", ",".join(FIRST))
    text = (campaign.root / FILE).read_text()
    at = datetime.fromtimestamp(START + 2.5 * DAY_S, UTC)
    (campaign.root / FILE).write_text(text + f"when = {at.isoformat()}\n")


def test_the_report_is_over_hosts_with_the_change_and_the_missing_host(campaign):
    root = str(campaign.root)
    carry_out(campaign)
    shown = json.loads(vtax("report", root, "--json").stdout)["hosts"]
    (change,) = shown["changes"]
    assert (tuple(change["changed"]), len(change["controls"])) == (FIRST, 3)
    docker = next(
        each for each in change["effects"] if each["platform"] == "docker" and not each["baseline"]
    )
    assert docker["estimate"] == pytest.approx(0.9, abs=0.01)
    assert docker["high"] < 1
    (missing,) = shown["missing"]
    assert (missing["host"], missing["state"], missing["code"]) == (
        "web9",
        "unreachable",
        "unreachable",
    )
    assert [host["host"] for host in shown["hosts"]] == list(HOSTS)
    printed = vtax("report", root).stdout
    assert "web9" in printed
    assert "controls" in printed


@pytest.mark.slow
def test_a_second_report_merges_nothing_again_and_writes_html(campaign, tmp_path):
    first = json.loads(vtax("report", str(campaign.root), "--json").stdout)["run"]
    page = tmp_path / "report.html"
    vtax("report", str(campaign.root), "-o", str(page))
    assert "web9" in page.read_text()
    assert json.loads(vtax("report", str(campaign.root), "--json").stdout)["run"] == first


def test_one_session_is_no_report(campaign, private_home):
    with Store.open(private_home.store_url) as store:
        add_session(store.engine, "alone", "web0", 1, store.open_run(store.runs()[0].name).identity)
    campaign.settings.model_copy(update={"name": "alone"}).write(campaign.root / FILE)
    assert "report needs two" in str(vtax("report", str(campaign.root), fails=True).exception)


def test_two_reports_at_once_are_one_after_the_other(campaign):
    with campaign.reporting():
        assert isinstance(vtax("report", str(campaign.root), fails=True).exception, Busy)
    vtax("report", str(campaign.root))


def test_a_report_reads_what_has_arrived_while_a_controller_works(campaign):
    with campaign.lock():
        assert "6 of 7 hosts measured" in vtax("report", str(campaign.root)).stdout


def test_the_gate_of_a_campaign_ends_with_its_status_and_writes_a_file(campaign, tmp_path):
    root, junit = str(campaign.root), tmp_path / "gate.xml"
    carry_out(campaign)
    failed = vtax("report", root, "--fail-if", "slower-by", "5%", "--junit", str(junit), fails=True)
    assert failed.exit_code == 1
    assert "The check failed: 1 comparison is slower" in failed.stdout
    assert '<failure message="' in junit.read_text()
    passed = vtax("report", root, "--fail-if", "slower-by 50%,odd-hosts", "--json")
    gate = json.loads(passed.stdout)
    assert (gate["schema"], gate["baseline"], gate["status"]) == (
        "vtax.gate/1",
        "before",
        "undecided",
    )
    strict = vtax("report", root, "--fail-if", "odd-hosts", "--strict", fails=True)
    assert strict.exit_code == 3  # web9 was not measured


@pytest.mark.parametrize("condition", ["even-hosts", "slower-by", "odd-hosts 5%"])
def test_a_condition_that_no_gate_knows_is_refused(campaign, condition):
    refused = vtax("report", str(campaign.root), "--fail-if", condition, fails=True)
    assert isinstance(refused.exception, BadInput)
    assert refused.exception.hint.endswith("or --fail-if odd-hosts")
