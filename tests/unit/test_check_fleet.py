"""The gate of a campaign: what a planned change costs over hosts, and hosts that lie apart."""

from __future__ import annotations

import math
import random
import re
from pathlib import Path

import pytest
from a_run import PLATFORMS, a_run, put_store
from fleet import DAY_S, START, measure, merged

from vtax.errors import BadInput
from vtax.report.analysis.source import Source, source_of
from vtax.report.answers.gate.compute import Checks
from vtax.report.answers.gate.fleet import check_fleet
from vtax.report.answers.gate.show import document_of
from vtax.report.answers.hosts.fleet import fleet_of
from vtax.report.answers.hosts.show_summary import change_sentence
from vtax.report.renderers.format import english
from vtax.report.renderers.json import as_json
from vtax.stats.host_change import effect_of_change, p_of_limit
from vtax.stats.terms import Conditions
from vtax.store.records import CellRecord, MetricRecord
from vtax.store.store import Store

pytestmark = pytest.mark.slow

HOSTS = tuple(f"web{number}" for number in range(10))
FIRST = HOSTS[::2]
COST = 0.94
DECLARED = {"what": "kernel", "first": list(FIRST), "seed": 7, "at": START + 2.5 * DAY_S}
SPEED = Conditions({"speed": 0.05})
NGINX = (
    MetricRecord("nginx", "requests", "requests", "requests/s", "higher", True, role="speed"),
    MetricRecord("nginx", "host_cpu_per_request", "", "µs/request", "lower", False, role="cost"),
)
ODD = Conditions({}, odd_hosts=True)


def measure_change(store: Store) -> None:
    draw = random.Random(2)
    own = {host: math.exp(draw.gauss(0, 0.03)) for host in HOSTS}

    def speed(host: str, session: int, platform: str) -> float:
        is_slower = platform == "docker" and session > 2 and host in FIRST
        odd = 0.7 if host == "web9" and platform == "native" else 1.0
        return own[host] * odd * math.exp(draw.gauss(0, 0.003)) * (COST if is_slower else 1.0)

    measure(store, HOSTS, 4, speed=speed)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    put_store(tmp_path / "store.sqlite", measure_change)
    return Store.open(tmp_path / "store.sqlite")


def gate(store: Store, asked: Conditions, without: str = "", **record: object) -> Checks:
    runs = {host: [f"{host}-s{session}" for session in range(1, 5)] for host in HOSTS}
    if without:
        runs[without] = runs[without][:2]
    source = source_of(store, merged(store, runs, **record))
    fleet = fleet_of(source.analysis)
    assert fleet is not None
    return check_fleet(source.analysis, fleet, asked)


@pytest.mark.parametrize(
    ("margin", "outcome", "status"), [(0.02, "slower", 1), (0.10, "passed", 0)]
)
def test_a_change_is_judged_against_before_over_hosts(store, margin, outcome, status):
    found = gate(store, Conditions({"speed": margin}), change=DECLARED)
    outcomes = {each.pair.treatment.platform.name: each.outcome for each in found.comparisons}
    assert outcomes == {"native": "passed", "docker": outcome}
    assert found.exit_status == status
    docker = next(each for each in found.comparisons if each.outcome == outcome or margin == 0.10)
    assert docker.ratio.n_hosts == len(HOSTS)


def test_the_document_says_after_what_and_against_before(store):
    found = gate(store, SPEED, change=DECLARED)
    document = document_of(found)
    lead = english(document.lead[0]).replace("\N{NO-BREAK SPACE}", " ")
    assert lead == (
        "tour-merged-1: native, docker after kernel, against before; fails above a loss of 5 %; Holm-corrected over all "
        "comparisons of a metric (2)"
    )
    assert as_json(document)["baseline"] == "before"


def costly(store: Store) -> Source:
    """A change that costs docker 6 % more CPU per request, and 6 % of its requests."""
    draw = random.Random(3)
    runs: dict[str, list[str]] = {}
    cells = [CellRecord(f"n-{x}", "n", x, "nginx", "nginx", "1.22") for x in ("native", "docker")]
    for number, host in enumerate(HOSTS):
        for session in range(1, 5):
            name = f"{host}-s{session}"
            known = {"machine_id": f"{number:012x}", "cpu_model": "A CPU"}
            run = a_run(name).platforms(*PLATFORMS[:2]).cells(cells).metrics(NGINX)
            run = run.having(host=known, started_at=START + session * DAY_S + number)
            times = 1.06 if host in FIRST and session > 2 else 1.0

            def value(cell: CellRecord, *_: int, times: float = times) -> dict[str, float]:
                of_platform = times if cell.platform == "docker" else 1.0
                noise = math.exp(draw.gauss(0, 0.01))
                cpu = 50 * of_platform / noise
                return {"requests": 1000 / of_platform * noise, "host_cpu_per_request": cpu}

            run.blocks(5).values(value).stored(store)
            runs.setdefault(host, []).append(name)
    return source_of(store, merged(store, runs, change=DECLARED))


def test_a_change_that_costs_cpu_says_so_and_fails_for_that(tmp_path):
    source = costly(Store.open(tmp_path / "costly.sqlite"))
    fleet = fleet_of(source.analysis)
    (planned,) = fleet.changes
    said = english(change_sentence(*planned, source.analysis)).replace("\N{NO-BREAK SPACE}", " ")
    assert re.fullmatch(
        r"After kernel: docker: at least 5\.\d+ % slower on nginx, at least 5\.\d+ % more host CPU per request on "
        r"nginx; native: no difference found \(a slowdown of up to [\d.]+ % cannot be excluded\)\.",
        said,
    )
    found = check_fleet(source.analysis, fleet, Conditions({"cost": 0.02}))
    outcomes = {each.pair.treatment.platform.name: each.outcome for each in found.comparisons}
    assert outcomes == {"native": "passed", "docker": "costs-more"}
    assert dict(found.margins) == {"cost": 0.02}


def test_a_host_that_is_lost_after_the_change_is_not_tested(store):
    found = gate(store, Conditions({"speed": 0.10}, strict=True), without="web0", change=DECLARED)
    assert [each.platform for each in found.not_tested] == ["web0"]
    assert found.exit_status == 3


def test_without_a_change_the_baseline_is_what_platforms_are_compared_with(store):
    found = gate(store, SPEED)
    assert found.baseline == "native"
    assert [each.pair.treatment.platform.name for each in found.comparisons] == ["docker"]


def test_a_host_that_lies_apart_fails_the_gate_and_is_named(store):
    found = gate(store, ODD)
    assert {each.host: each.outcome for each in found.hosts if each.findings} == {
        "web9": "odd-host"
    }
    assert len(found.hosts) == len(HOSTS)
    assert found.hosts[0].host == "web9"
    assert (found.status, found.exit_status) == ("failed", 1)
    document = document_of(found)
    (case,) = [case for case in document.suite.cases if case.outcome == "failed"]
    assert (case.group, case.kind) == ("web9", "odd-host")
    assert "native on sysbench-cpu" in english(case.text)


def test_a_platform_alone_without_a_change_can_be_no_slower(store):
    source = source_of(store, merged(store, {host: [f"{host}-s1"] for host in HOSTS}))
    alone = source.analysis.__class__(
        **{
            **{
                name: getattr(source.analysis, name)
                for name in source.analysis.__dataclass_fields__
            },
            "platforms": source.analysis.platforms[:1],
        }
    )
    with pytest.raises(BadInput) as refused:
        check_fleet(alone, fleet_of(source.analysis), SPEED)
    assert refused.value.hint == "--fail-if odd-hosts judges its hosts"


def test_the_test_at_a_limit_agrees_with_the_interval():
    changed, controls = [-0.07, -0.05, -0.06, -0.08], [0.01, 0.0, -0.01, 0.0]
    effect = effect_of_change(changed, controls)
    p_value, is_above = p_of_limit(changed, controls, math.log(effect.high))
    assert p_value == pytest.approx(0.05)
    assert not is_above
    p_value, is_above = p_of_limit(changed, controls, math.log(effect.low))
    assert p_value == pytest.approx(0.05)
    assert is_above
