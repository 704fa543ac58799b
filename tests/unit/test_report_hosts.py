"""Hosts of a merged run: by name, odd ones with what only they have, missing ones, a change with controls."""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from a_run import METRICS, PLATFORMS, a_run, cells, put_store
from fleet import DAY_S, START, measure, merged

from vtax.report import document as doc
from vtax.report.analysis.source import Source, source_of
from vtax.report.answers.hosts.compute import groups_of, hosts_of, short_names
from vtax.report.answers.hosts.host_change import changes_of, effects_of
from vtax.report.answers.hosts.view import VIEW
from vtax.report.answers.result import view as result
from vtax.report.chapters import report
from vtax.report.renderers.format import english
from vtax.report.renderers.html import html
from vtax.report.renderers.json import as_json
from vtax.report.views.base import Options
from vtax.stats.host_change import effect_of_change
from vtax.store.store import Store

pytestmark = pytest.mark.slow

HOSTS = tuple(f"web{number}" for number in range(8))
FIRST = ("web0", "web3", "web5", "web6")
COST, WINDOW = 0.97, 1.03
AFTER = START + 2.5 * DAY_S


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "store.sqlite")


def updated(host: str, session: int) -> bool:
    return session > 2 and host in FIRST


def speeds(seed: int = 5, own: float = 0.05):
    """Hosts of their own speed, a second window that is faster, a kernel that costs docker on those that have it."""
    draw = random.Random(seed)
    of_host = {host: math.exp(draw.gauss(0, own)) for host in HOSTS}

    def speed(host: str, session: int, platform: str) -> float:
        value = of_host[host] * math.exp(draw.gauss(0, 0.004)) * (WINDOW if session > 2 else 1.0)
        return value * (COST if updated(host, session) and platform == "docker" else 1.0)

    return speed


def kernels(host: str, session: int) -> dict[str, object]:
    return {"kernel": "6.6" if updated(host, session) else "6.1"}


def shown(source: Source, depth: str = "brief") -> dict:
    return as_json(VIEW.document(source, Options(depth)))


def text_of(source: Source) -> str:
    return json.dumps(shown(source)) + " ".join(sentences(source))


def text_of_parts(source: Source) -> str:
    return " ".join(
        english(part.title)
        for part in VIEW.document(source, Options()).parts
        if hasattr(part, "title")
    )


def sentences(source: Source, view=VIEW) -> list[str]:
    """What the first screen says, a text for each line."""
    summary = next(
        part
        for part in view.document(source, Options()).parts
        if getattr(part, "role", "") == "summary"
    )
    return [text.replace("\N{NO-BREAK SPACE}", " ") for text in texts(summary.parts)]


def texts(parts) -> Iterator[str]:
    for part in parts:
        if isinstance(part, doc.Titled):
            yield from texts(part.parts)
        elif isinstance(part, doc.Bullets):
            yield from map(english, part.items)
        elif isinstance(part, doc.Paragraph):
            yield english(part.text)


@pytest.fixture
def updated_store(tmp_path: Path) -> Store:
    """A store of runs of all hosts, four each, of which FIRST had the new kernel in the last two."""
    put_store(tmp_path / "store.sqlite", measure_update)
    return Store.open(tmp_path / "store.sqlite")


def measure_update(store: Store) -> None:
    measure(store, HOSTS, 4, speed=speeds(), facts=kernels)


def changed(store: Store, **record: object) -> Source:
    runs = {host: [f"{host}-s{session}" for session in range(1, 5)] for host in HOSTS}
    return source_of(store, merged(store, runs, **record))


DECLARED = {"what": "kernel 6.6", "first": list(FIRST), "seed": 7, "at": AFTER}


def test_a_declared_change_is_judged_against_the_controls_in_the_same_windows(updated_store):
    source = changed(updated_store, change=DECLARED)
    (change,) = shown(source)["changes"]
    assert (tuple(change["changed"]), len(change["controls"])) == (FIRST, 4)
    assert change["is_random"]
    effects = {(each["platform"], each["baseline"]): each for each in change["effects"]}
    assert set(effects) == {("native", ""), ("docker", ""), ("docker", "native")}
    docker = effects["docker", ""]
    assert docker["low"] < COST < docker["high"] < 1
    assert docker["alone"]["estimate"] == pytest.approx(
        COST * WINDOW, abs=0.01
    )  # what a look without controls says
    assert docker["of_controls"]["estimate"] == pytest.approx(WINDOW, abs=0.01)
    assert effects["native", ""]["low"] < 1 < effects["native", ""]["high"]
    assert docker["p_adjusted"] > docker["p_value"]
    said = sentences(source)
    assert re.fullmatch(
        r"After kernel 6\.6: docker: at least [12]\.\d+ % slower; "
        r"native: no difference found \(a slowdown of up to [\d.]+ % cannot be excluded\)\.",
        said[0],
    )
    assert said[1] == (
        "measured before and after on 4 of 4 changed hosts, against 4 that did not change"
    )


def test_a_declared_change_pools_nothing_over_before_and_after(updated_store):
    source = changed(updated_store, change=DECLARED)
    document = result.VIEW.document(source, Options("report"))
    assert [part.key for part in document.parts] == ["answer"]
    chapters = {part.key for part in report(source).parts}
    assert not chapters & {"results", "variance", "explain", "recommend"}
    assert {"answer", "hosts", "sessions"} <= chapters
    said = sentences(source, result.VIEW)
    assert said[0].startswith("After kernel 6.6: ")
    assert not any("of native" in each for each in said)
    assert shown(source)["answer"]["platforms"] is None


def test_hosts_that_were_lost_after_a_change_are_counted_and_named(store):
    runs = measure(store, HOSTS, 4, speed=speeds(), facts=kernels)
    runs["web3"] = runs["web3"][:2]
    said = sentences(source_of(store, merged(store, runs, change=DECLARED)))
    assert (
        "measured before and after on 3 of 4 changed hosts, against 4 that did not change" in said
    )
    assert "no session after the change: web3" in said


def test_each_host_is_one_value_after_relative_to_before(updated_store):
    source = changed(updated_store, change=DECLARED)
    analysis, hosts = source.analysis, hosts_of(source.analysis)
    (change,) = changes_of(analysis, hosts)
    effect = next(
        e for e in effects_of(analysis, hosts, change) if e.platform == "docker" and not e.baseline
    )
    row = effect.row
    means = dict(zip(row.blocks.tolist(), row.block_means.tolist(), strict=True))
    shifts: dict[str, float] = {}
    for host in hosts:
        logs = [
            sum(math.log(means[block]) for block in session.blocks) / 3 for session in host.sessions
        ]
        shifts[host.name] = (logs[2] + logs[3]) / 2 - (logs[0] + logs[1]) / 2
    sides = [
        [value for host, value in shifts.items() if (host in FIRST) == is_first]
        for is_first in (True, False)
    ]
    assert effect.effect == pytest.approx(effect_of_change(*sides)) or (
        effect.effect.low == pytest.approx(effect_of_change(*sides).low)
    )


def test_half_of_the_hosts_updated_by_accident_is_offered_as_a_change(updated_store):
    source = changed(updated_store)
    (change,) = shown(source)["changes"]
    assert not change["is_declared"]
    assert not change["is_random"]
    assert tuple(change["changed"]) == FIRST
    (fact,) = change["facts"]
    assert (fact["fact"], fact["before"], fact["after"], fact["changed"], fact["controls"]) == (
        "kernel",
        "6.1",
        "6.6",
        4,
        0,
    )
    assert sentences(source)[0].startswith("After kernel: docker: at least ")
    parts = VIEW.document(source, Options()).parts
    (part,) = [each for each in parts if getattr(each, "key", "") == "change"]
    assert (
        "kernel became another between sessions on 4 of 8 hosts: the other 4 are taken as controls, as in a campaign "
        "of a change"
    ) in list(texts(part.parts))
    assert (
        groups_of(source.analysis.sessions) == ()
    )  # a host is not compared with itself as if it were two


def test_another_version_of_a_hypervisor_on_some_hosts_is_a_change_too(store):
    runs = measure(store, HOSTS, 4, speed=speeds())
    from sqlalchemy import select, update

    from vtax.store import schema
    from vtax.store.database import writing

    newer = [run for host in FIRST for run in runs[host][2:]]
    with writing(store.engine) as connection:
        of = select(schema.run.c.id).where(schema.run.c.name.in_(newer))
        table = schema.platform
        connection.execute(
            update(table)
            .where(table.c.run_id.in_(of), table.c.name == "docker")
            .values(version="29")
        )
    (change,) = shown(source_of(store, merged(store, runs)))["changes"]
    assert [each["fact"] for each in change["facts"]] == ["platform_versions.docker"]
    assert (change["facts"][0]["before"], change["facts"][0]["after"]) == ("20.10", "29")


def test_hosts_that_all_changed_have_no_controls_and_that_is_said(store):
    def every(host: str, session: int) -> dict[str, object]:
        return {"kernel": "6.6" if session > 2 else "6.1"}

    source = source_of(store, merged(store, measure(store, HOSTS, 4, speed=speeds(), facts=every)))
    (change,) = shown(source)["changes"]
    assert change["controls"] == []
    assert all(each["of_controls"] is None for each in change["effects"])
    assert any(
        "whatever else changed meanwhile is in the difference" in each for each in sentences(source)
    )


def test_a_host_that_did_what_it_was_not_to_do_and_one_that_was_lost_are_named(store):
    runs = measure(
        store,
        HOSTS,
        4,
        speed=speeds(),
        facts=lambda h, s: {
            "kernel": "6.6" if s > 2 and h in {*FIRST, "web1"} - {"web0"} else "6.1"
        },
    )
    runs["web3"] = runs["web3"][:2]
    (change,) = shown(source_of(store, merged(store, runs, change=DECLARED)))["changes"]
    assert change["unlike"] == ["web0", "web1"]
    assert change["lost"] == ["web3"]
    assert change["changed"] == ["web0", "web5", "web6"]


def test_a_change_that_was_not_carried_out_yet_shows_nothing(updated_store):
    source = changed(updated_store, change={**DECLARED, "at": None})
    assert shown(source)["changes"] == []


def test_sessions_after_the_controls_changed_too_do_not_count(updated_store):
    source = changed(updated_store, change={**DECLARED, "until": START + 3.5 * DAY_S})
    (change,) = shown(source)["changes"]
    third = {number for host in hosts_of(source.analysis) for number in host.numbers[2:3]}
    assert set(change["after"]) == third


@pytest.fixture(scope="module")
def odd_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A store of runs of all hosts, of which web7 is slower in docker."""
    return Store.open(tmp_path_factory.mktemp("odd") / "store.sqlite")


@pytest.fixture(scope="module")
def odd(odd_store: Store) -> Source:
    """Those runs merged, with web9, which never answered."""

    def speed(host: str, session: int, platform: str) -> float:
        return 0.8 if host == "web7" and platform == "docker" else 1.0

    def facts(host: str, session: int) -> dict[str, object]:
        return {"frequency_governor": "powersave" if host == "web7" else "performance"}

    runs = measure(odd_store, HOSTS, 2, speed=speed, facts=facts)
    hosts = [
        {
            "host": host,
            "runs": of,
            "planned": 2,
            "state": "collected",
            "agents": ["kubelet"] if host == "web7" else [],
        }
        for host, of in runs.items()
    ]
    hosts.append(
        {
            "host": "web9",
            "runs": [],
            "planned": 2,
            "state": "unreachable",
            "code": "unreachable",
            "detail": "no route to host",
        }
    )
    return source_of(odd_store, merged(odd_store, runs, hosts=hosts))


def test_an_odd_host_is_found_with_what_only_it_has(odd):
    (found,) = shown(odd)["odd"]
    assert (found["hosts"], found["platform"]) == (["web7"], "docker")
    assert found["low"] < 0.8 < found["high"]
    assert found["facts"] == ["agents.kubelet = yes", "frequency_governor = powersave"]
    (line,) = [each for each in sentences(odd) if each.startswith("web7: ")]
    assert re.fullmatch(
        r"web7: 80\.\d+ % of the other hosts in docker / native; "
        r"alone with resident agent: kubelet, frequency governor powersave",
        line,
    )


TEN = tuple(f"node{number}.example" for number in range(10))


def fleet_with(store: Store, slow: Mapping[str, float], **changes: Any) -> Source:
    """Ten hosts whose speeds scatter by 1 %, some slower by a factor."""
    draw = random.Random(3)
    own = {host: math.exp(draw.gauss(0, 0.01)) for host in TEN}

    def speed(host: str, session: int, platform: str) -> float:
        return own[host] * slow.get(host, 1.0)

    return source_of(store, merged(store, measure(store, TEN, 2, speed=speed, **changes)))


def test_three_slow_hosts_of_ten_do_not_hide_one_another(store):
    source = fleet_with(store, dict.fromkeys(TEN[:3], 0.8))
    odd = shown(source)["odd"]
    assert {each["hosts"][0] for each in odd} == set(TEN[:3])
    assert {each["platform"] for each in odd} == {"native"}
    (line,) = [each for each in sentences(source) if "of the other hosts" in each]
    assert line.startswith("node0, node1, node2: ")


def test_a_far_slower_host_has_a_line_of_its_own(store):
    source = fleet_with(store, {**dict.fromkeys(TEN[:3], 0.9), TEN[0]: 0.6})
    lines = [each for each in sentences(source) if "of the other hosts" in each]
    assert re.match(r"node0: 59\.\d+ % of the other hosts in native", lines[0])
    assert re.match(r"node1, node2: [\d. %]+ to [\d. %]+ of the other hosts in native", lines[1])


def test_the_worst_host_of_a_set_with_a_fact_in_common_is_named_beside_it(store):
    slow = {**dict.fromkeys(TEN[:3], 0.8), TEN[0]: 0.7}
    source = fleet_with(
        store, slow, facts=lambda host, _: {"cpu_microcode": "old" if host in TEN[:3] else "new"}
    )
    lines = [each for each in sentences(source) if "of the other hosts" in each]
    assert re.match(r"node0: 69\.\d % of the other hosts in native", lines[0])
    assert lines[1].startswith("node0, node1, node2: ")
    assert lines[1].endswith("; alone with CPU microcode old")
    assert len(lines) == 2


def test_hosts_of_two_models_are_each_compared_with_their_own(store):
    def model(host: str, _: int) -> dict[str, object]:
        return {"cpu_model": "slow CPU" if host in TEN[:5] else "fast CPU"}

    source = fleet_with(store, {**dict.fromkeys(TEN[:5], 0.8), TEN[2]: 0.6}, facts=model)
    assert {tuple(each["hosts"]) for each in shown(source)["odd"]} == {(TEN[2],)}


def test_a_host_of_a_few_is_not_called_odd_and_that_is_said(store):
    def speed(host: str, session: int, platform: str) -> float:
        return 0.5 if host == "web0" else 1.0

    source = source_of(store, merged(store, measure(store, HOSTS[:4], 2, speed=speed)))
    assert shown(source)["odd"] == []
    assert (
        "Too few hosts of one CPU model to tell whether one lies apart, 5 are needed: A CPU: 4"
    ) in sentences(source)


def test_a_study_of_the_baseline_alone_says_how_its_hosts_scatter_and_which_lie_apart(store):
    runs: dict[str, list[str]] = {}
    for number, host in enumerate(TEN):
        name = f"burn-{number}"
        run = a_run(name).platforms(PLATFORMS[0]).cells([c for c in cells() if c.key == "c-native"])
        run = run.metrics(METRICS[:1]).blocks(3)
        run = run.having(host={"machine_id": f"{number:012x}", "cpu_model": "A CPU"})
        speed = (700.0 if number == 4 else 1000.0) * (1 + number / 500)
        run.values(lambda cell, block, _, speed=speed: speed + block).stored(store)
        runs[host] = [name]
    source = source_of(store, merged(store, runs))
    said = sentences(source, result.VIEW)
    assert "10 of 10 hosts measured, 10 of 10 sessions" in said
    assert any(
        re.match(r"native on sysbench-cpu · events: 9 hosts scatter by 0\.\d+ %", x) for x in said
    )
    assert [each for each in said if each.startswith("node4: ")] == [
        "node4: 70.0 % of the other hosts in native"
    ]
    (matrix,) = (t for t in VIEW.document(source, Options()).tables() if t.key.startswith("hosts "))
    assert matrix.groups[0].rows[0].cells[0] == "node4"


def test_a_host_that_was_installed_again_is_one_host_with_two_periods(store):
    def facts(host: str, session: int) -> dict[str, object]:
        machine = "f" * 12 if (host, session) == ("web3", 2) else f"{HOSTS.index(host):012x}"
        return {"machine_id": machine, "hardware_id": f"hw-{host}"}

    source = source_of(store, merged(store, measure(store, HOSTS, 2, facts=facts)))
    (web3,) = [host for host in hosts_of(source.analysis) if host.name.startswith("web3")]
    assert len(web3.sessions) == 2
    assert [len(period) for period in web3.periods] == [1, 1]
    assert len({*source.analysis.units.labels[:, 0].tolist()}) == len(HOSTS)
    assert "installed again between sessions: web3" in sentences(source)


def test_a_name_that_now_belongs_to_other_hardware_is_two_hosts(store):
    def facts(host: str, session: int) -> dict[str, object]:
        if (host, session) == ("web3", 2):
            return {"machine_id": "f" * 12, "hardware_id": "hw-new"}
        return {"hardware_id": f"hw-{host}"}

    source = source_of(store, merged(store, measure(store, HOSTS, 2, facts=facts)))
    names = [host.name for host in hosts_of(source.analysis)]
    assert names.count("web3") == names.count("web3 (2)") == 1
    assert len(names) == len(HOSTS) + 1


def test_a_serial_number_that_all_hosts_have_tells_none_apart(store):
    source = source_of(
        store, merged(store, measure(store, HOSTS, 2, facts=lambda *_: {"hardware_id": "0"}))
    )
    assert [host.name for host in hosts_of(source.analysis)] == list(HOSTS)


def test_names_are_shown_without_the_domain_that_all_have():
    assert list(short_names(["a.dc1.example", "b.dc1.example"]).values()) == ["a", "b"]
    assert list(short_names(["a.example", "a.example (2)"]).values()) == ["a", "a (2)"]
    assert list(short_names(["a.x.example", "b.y.example"]).values()) == ["a.x", "b.y"]
    assert list(short_names(["192.0.2.1", "192.0.3.1"]).values()) == ["192.0.2.1", "192.0.3.1"]
    assert list(short_names(["example.example", "example"])) == ["example.example", "example"]
    assert list(short_names(["a.example"]).values()) == ["a.example"]


def test_blocks_of_several_hosts_do_not_drift(store):
    """Hosts stand in the merged run by their names; the slow ones last are no drift of anything."""
    slow = {host: 0.99**number for number, host in enumerate(TEN)}
    analysis = fleet_with(store, slow).analysis
    assert not [each for each in analysis.warnings if each.code.startswith("drift")]


def test_alike_hosts_are_not_called_odd(store):
    source = source_of(store, merged(store, measure(store, HOSTS, 2)))
    assert shown(source)["odd"] == []
    assert "No host is shown to lie apart" in " ".join(sentences(source))


def test_missing_hosts_are_named_with_their_reasons(odd):
    (missing,) = shown(odd)["missing"]
    assert (missing["host"], missing["state"], missing["code"]) == (
        "web9",
        "unreachable",
        "unreachable",
    )
    assert (missing["planned"], missing["sessions"]) == (2, [])
    said = sentences(odd)
    assert "8 of 9 hosts measured, 16 of 18 sessions" in said
    assert "missing: web9 (unreachable: no route to host)" in said


def test_the_matrix_has_a_line_a_host_and_the_farthest_where_they_are_many(odd):
    (of_web7,) = (host for host in shown(odd)["hosts"] if host["host"] == "web7")
    own, ratio = of_web7["ratios"]
    assert (own["platform"], own["baseline"]) == ("native", "")
    assert own["estimate"] == pytest.approx(1.0, abs=0.01)
    assert (ratio["platform"], ratio["baseline"]) == ("docker", "native")
    assert ratio["estimate"] == pytest.approx(0.8, abs=0.01)
    document = VIEW.document(odd, Options("all"))
    (matrix,) = (table for table in document.tables() if table.key.startswith("hosts "))
    names = [row.cells[0] for row in matrix.groups[0].rows]
    assert names[0] == "web7"
    assert sorted(names) == list(HOSTS)
    assert [column.key for column in matrix.columns][2:] == ["native", "docker", "apart"]
    assert not [*document.figures()]
    (figure,) = VIEW.document(odd, Options("report")).figures()
    of_native, of_docker = figure.groups
    assert len(of_native.rows) == 1
    assert [row.label for row in of_docker.rows[1:]] == ["web7"]
    assert all(len(group.rows[0].values) == len(HOSTS) for group in figure.groups)


def test_dots_of_a_figure_are_hosts_around_the_median_of_hosts_like_them(odd):
    (figure,) = VIEW.document(odd, Options("report")).figures()
    assert figure.dots == "host"
    everyone, web7 = figure.groups[1].rows
    assert everyone.shown[0] == 1.0
    assert min(everyone.values) == pytest.approx(0.8, abs=0.01) == web7.shown[0]
    assert sorted(everyone.values)[4] == pytest.approx(1.0, abs=0.01)


def test_a_wide_name_of_a_row_wraps_in_a_page(odd):
    page = html(report(odd))
    assert '<th scope="row" class="wrap">web7</th>' in page


def test_the_report_has_the_chapter_and_one_of_a_single_host_has_none(odd, odd_store):
    assert any(getattr(part, "key", "") == "hosts" for part in report(odd).parts)
    alone = source_of(odd_store, "web0-s1")
    assert not any(getattr(part, "key", "") == "hosts" for part in report(alone).parts)


def test_the_record_of_a_campaign_is_renewed_without_merging_again(store):
    runs = measure(store, HOSTS[:3])
    first = merged(store, runs)
    again = merged(store, runs, name="other")
    assert first == again
    assert shown(source_of(store, first))["campaign"] == "other"
    assert len([run for run in store.runs() if "merged" in run.origin]) == 1


@pytest.mark.parametrize(
    "change", ["kernel", {"what": 3, "first": "web0"}, {"first": [1], "at": "soon"}, 7]
)
def test_a_record_that_nobody_checked_does_no_harm(store, change):
    runs = measure(store, HOSTS[:3])
    source = source_of(store, merged(store, runs, change=change, extra=[{"deep": {}}]))
    assert shown(source)["changes"] == []


def test_a_change_that_slows_several_times_says_how_many(store):
    def speed(host: str, session: int, platform: str) -> float:
        return 0.2 if updated(host, session) and platform == "docker" else 1.0

    runs = measure(store, HOSTS, 4, speed=speed, facts=kernels)
    said = sentences(source_of(store, merged(store, runs, change=DECLARED)))
    assert re.match(
        r"After kernel 6\.6: docker: [45]\.\d+ times slower \[[\d., ]+\]; native", said[0]
    )
