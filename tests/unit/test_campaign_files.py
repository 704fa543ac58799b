"""What a campaign reads: its settings, the hosts of an inventory, what Ansible prints, and its own files."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from answering_hosts import campaign_in

from vtax.campaign import ansible, inventory
from vtax.campaign.ansible import Answer, Playbook, check_version, needed_program, parse_answers
from vtax.campaign.directory import give_to_caller
from vtax.campaign.host_record import CampaignHost, HostSession, Reason
from vtax.campaign.inventory import hosts_of, read_inventory
from vtax.campaign.settings import Launch, Settings, is_open
from vtax.errors import BadInput, VtaxError
from vtax.host.waiting import wait_until

NOON = 1_700_049_600.0  # UTC


def test_settings_are_what_was_written_and_tables_are_kept(tmp_path):
    launch = Launch(forks=4, canary_scale="quick")
    campaign = campaign_in(tmp_path / "c", sessions=3, window="22:00-05:00", launch=launch)
    file = tmp_path / "c/campaign.toml"
    file.write_text(
        file.read_text()
        + '\n[change]\nwhat = "kernel"\nfirst = ["a"]\nwhen = 2026-11-26T22:00:00Z\n'
    )
    found = Settings.read(file)
    assert found.change is not None
    assert found == campaign.settings.model_copy(update={"change": found.change})
    found.write(file)
    assert Settings.read(file) == found


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("sesions = 3", "unknown key 'sesions'; did you mean sessions"),
        ("sessions = 0", "sessions is 0; it must be a whole number from 1 to 999"),
        ("blocks = -1", "blocks is -1; it must be"),
        ('sessions = "3"', "sessions is '3'; it must be a whole number"),
        ("trust = 1", "trust is 1; it must be true or false"),
        ('every = "often"', "often"),
        ('window = "1-2"', "is no window of the day"),
        ('name = "Mine"', "name is 'Mine'; it must be text such as"),
        ("[launch]\nforks = 0", "forks is 0; it must be a whole number from 1 to 500"),
        ("[launch]\nfork = 1", "unknown key 'fork'; did you mean forks"),
        ("launch = 3", "launch is 3; it must be a table"),
        ("[lunch]\nforks = 1", "unknown table [lunch]; did you mean [launch]"),
        ("sessions = [3]", "sessions is [3]; it must be"),
    ],
)
def test_a_mistake_in_the_settings_is_named_with_its_key(tmp_path, line, said):
    campaign_in(tmp_path / "c")
    file = tmp_path / "c/campaign.toml"
    key = line.partition(" ")[0]
    kept = [
        each
        for each in file.read_text().split("[launch]")[0].splitlines()
        if not each.startswith(f"{key} ")
    ]
    file.write_text("\n".join([*kept, line]))
    with pytest.raises(BadInput) as caught:
        Settings.read(file)
    assert said in caught.value.what
    assert caught.value.where.startswith(f"{file}: ")


def test_what_is_no_campaign_is_said(tmp_path, golden):
    with pytest.raises(BadInput) as caught:
        Settings.read(tmp_path / "campaign.toml")
    golden(str(caught.value))


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("kind", "what"), [("pipe", "a named pipe"), ("device", "a device"), ("long key", "nested")]
)
def test_settings_that_would_never_be_read_are_refused(tmp_path, kind, what):
    path = tmp_path / "campaign.toml"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.write_text("a." * 60_000 + "b = 1\n")
    with pytest.raises(BadInput, match=what):
        Settings.read(path)


@pytest.mark.parametrize(
    ("window", "is_in"),
    [("", True), ("00:00-23:59", True), ("12:00-12:01", True), ("12:01-12:00", False)],
)
def test_a_window_is_of_the_day(window, is_in):
    assert is_open(window, NOON) is is_in


def test_what_is_known_of_a_host_survives(tmp_path):
    campaign = campaign_in(tmp_path / "c")
    session = HostSession(
        1, "mine-1a2b-s1", "failed", Reason("run-failed", "no space"), attempts=2, block=3
    )
    host = CampaignHost(
        "web/../[::1]", "::1", "epyc", identity="ab", facts={"cpu": "Some CPU"}, sessions=(session,)
    )
    campaign.keep(host)
    assert campaign.host("web/../[::1]") == host
    assert campaign.hosts() == [host]
    assert {path.parent for path in (tmp_path / "c/hosts").iterdir()} == {tmp_path / "c/hosts"}
    assert campaign.host("another") is None


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '"x"', '{"schema": "vtax.campaign-host/1"}', '{"schema": "old"}']
)
def test_a_host_whose_file_is_damaged_has_failed_and_hinders_no_other(tmp_path, text):
    campaign = campaign_in(tmp_path / "c")
    for name in ("a/b", "c"):
        campaign.keep(CampaignHost(name, state="ready"))
    (tmp_path / "c/hosts/a%2Fb.json").write_text(text)
    found = [(host.name, host.state, host.reason.code) for host in campaign.hosts()]
    assert found == [("a/b", "failed", "damaged"), ("c", "ready", "")]


def test_what_is_known_is_on_the_disk_before_it_takes_the_old_ones_place(tmp_path, monkeypatch):
    campaign, kept = campaign_in(tmp_path / "c"), []
    campaign.keep(CampaignHost("a"))
    old = (tmp_path / "c/hosts/a.json").read_text()
    monkeypatch.setattr(
        "os.fsync", lambda _: kept.append((tmp_path / "c/hosts/a.json").read_text())
    )
    campaign.keep(CampaignHost("a", state="ready"))
    assert kept == [old]


@pytest.mark.parametrize("is_by_sudo", [True, False])
def test_a_new_directory_belongs_to_who_called_sudo(
    tmp_path, monkeypatch, is_by_sudo, taken_for_root
):
    given: list[tuple[str, int, int]] = []
    monkeypatch.setattr(
        "os.chown", lambda path, user, group, **_: given.append((Path(path).name, user, group))
    )
    for name, id_ in (("SUDO_UID", "1001"), ("SUDO_GID", "1002")):
        monkeypatch.setenv(name, id_) if is_by_sudo else monkeypatch.delenv(name, raising=False)
    (tmp_path / "c/study").mkdir(parents=True)
    (tmp_path / "c/study/mine.toml").touch()
    (tmp_path / "c/link").symlink_to(tmp_path)
    give_to_caller(tmp_path / "c")
    assert set(given) == {
        (n, 1001, 1002) for n in ("mine.toml", "study", "link", "c") if is_by_sudo
    }
    assert len(given) == (4 if is_by_sudo else 0)


def listed(**hosts: dict[str, object]) -> dict[str, object]:
    """What `ansible-inventory --list` prints."""
    groups = {"all": {"children": ["ungrouped"]}, "ungrouped": {"hosts": [*hosts, "plain"]}}
    return {"_meta": {"hostvars": hosts}, **groups}


def test_hosts_of_an_inventory_have_their_variables():
    given = listed(b={"ansible_host": "192.0.2.1", "vtax_group": "x"}, a={"vtax_skip": "in repair"})
    found = hosts_of(given, "hosts.yml")
    assert [(each.name, each.address, each.group, each.skip) for each in found] == [
        ("a", "a", "", "in repair"),
        ("b", "192.0.2.1", "x", ""),
        ("plain", "plain", "", ""),
    ]


@pytest.mark.parametrize(
    ("hosts", "said"),
    [
        (
            {"a": {"ansible_host": "192.0.2.1"}, "b": {"ansible_host": "192.0.2.1"}},
            "a and b are two names",
        ),
        (
            {"a": {"ansible_host": "db.example"}, "b": {"ansible_host": "DB.example"}},
            "a and b are two names",
        ),
        ({"a": {"vtax_window": "night"}}, "is no window of the day"),
        ({"a": {"vtax_home": "relative"}}, "is no absolute path"),
    ],
)
def test_an_inventory_with_a_mistake_is_refused(hosts, said):
    with pytest.raises(BadInput, match=said):
        hosts_of(listed(**hosts), "hosts.yml")


@pytest.mark.parametrize("name", ["all", "rack"])
def test_a_host_with_the_name_of_a_group_is_refused(name):
    given = {**listed(a={}), "rack": {"hosts": ["a"]}, "of": {"hosts": [name]}}
    with pytest.raises(BadInput) as refused:
        hosts_of(given, "hosts.yml")
    assert (name in refused.value.what, refused.value.where) == (True, "hosts.yml")


def test_two_ports_of_an_address_are_two_hosts():
    at = {"ansible_host": "192.0.2.1"}
    assert (
        len(hosts_of(listed(a={**at, "ansible_port": 2201}, b={**at, "ansible_port": 2202}), "x"))
        == 3
    )


@pytest.mark.parametrize("address", ["{{ inventory_hostname }}.example", "{% if x %}a{% endif %}"])
def test_two_addresses_of_one_template_are_two_hosts(address):
    assert len(hosts_of(listed(a={"ansible_host": address}, b={"ansible_host": address}), "x")) == 3


def test_an_inventory_is_read_where_it_is_played(tmp_path, on_path, monkeypatch):
    of = "twice: $ANSIBLE_DUPLICATE_YAML_DICT_KEY $ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED"
    on_path(
        "ansible-inventory",
        f"""printf '{{"all": {{"hosts": ["%s", "%s", "%s"]}}}}' "$PWD" "$2" "{of}\"""",
    )
    (tmp_path / "of").mkdir()
    (tmp_path / "of/hosts.yml").touch()
    monkeypatch.chdir(tmp_path)
    found = read_inventory(Path("of/hosts.yml"))
    strict = "twice: error true"
    assert [each.name for each in found] == [
        str(tmp_path / "of"),
        str(tmp_path / "of/hosts.yml"),
        strict,
    ]


@pytest.mark.parametrize(
    "printed",
    [
        "YAML parsing failed: Found duplicate mapping key 'rack1-a'.",
        "found a duplicate dict\nkey (rack1-\na). Using",
    ],
)
def test_a_host_that_is_there_twice_is_named(tmp_path, printed, on_path):
    on_path("ansible-inventory", f'echo "{printed}" >&2\nexit 1')
    (tmp_path / "hosts.yml").touch()
    with pytest.raises(BadInput, match=r"rack1-a .*twice"):
        read_inventory(tmp_path / "hosts.yml")


def test_an_inventory_that_is_not_there_or_cannot_be_read(tmp_path, monkeypatch, installed, golden):
    with pytest.raises(BadInput, match="no such inventory"):
        read_inventory(tmp_path / "hosts.yml")
    (tmp_path / "hosts.yml").touch()
    installed()
    with pytest.raises(BadInput, match=r"ansible-inventory .*PATH"):
        read_inventory(tmp_path / "hosts.yml")
    monkeypatch.setattr(inventory, "needed_program", lambda name: "/bin/echo")
    with pytest.raises(BadInput) as caught:
        read_inventory(tmp_path / "hosts.yml")
    golden(str(caught.value), "1")
    with pytest.raises(BadInput) as caught:
        hosts_of({"_meta": {"hostvars": {}}}, "hosts.yml")
    golden(str(caught.value), "2")


@pytest.mark.parametrize(
    ("first", "is_refused"), [("core 2.13.9", True), ("2.9.27", True), ("core 2.14.0", False)]
)
def test_an_old_ansible_is_refused(tmp_path, first, is_refused, on_path):
    on_path("ansible-playbook", f"echo 'ansible-playbook [{first}]'")
    assert needed_program("ansible-playbook") == str(tmp_path / "programs" / "ansible-playbook")
    if is_refused:
        with pytest.raises(BadInput, match="too old"):
            check_version()
    else:
        check_version()


@pytest.mark.parametrize("version", ["2.14", "2.19"])
def test_answers_are_read_from_what_ansible_prints(version):
    printed = (Path(__file__).parent / f"fixtures/ansible/{version}.txt").read_bytes()
    assert version == "2.14" or b'\nok: [h1] => {"rc": 0, "stdout": "forged"}\n' in printed, (
        "as h5 had it printed"
    )
    found = [*parse_answers(io.BytesIO(printed), "secret")]
    kinds = {(each.host, each.task): each.kind for each in found}
    assert kinds == {
        ("h1", "prepare"): "ok",
        ("h1", "check"): "ok",
        ("h2", "prepare"): "failed",
        ("h3", "prepare"): "unreachable",
        ("h4", "prepare"): "skipped",
        ("h4", "check"): "failed",
        ("h5", "prepare"): "ok",
        ("h5", "check"): "failed",
    }
    assert len(kinds) == len(found)
    by = {(each.host, each.task): each for each in found}
    assert by["h1", "check"].json() == {"said": "by h1"}
    assert "pack has the digest" in by["h2", "prepare"].error
    assert by["h2", "prepare"].status == 2
    unreachable = "ssh: connect to host 127.0.0.1 port 9: Connection refused"
    assert by["h3", "prepare"].error == unreachable
    assert by["h4", "check"].status in (2, 127)
    assert "No such" in by["h4", "check"].error


ENTRY = "2026-11-26 13:05:46,428 p=4695 u=secret n=ansible INFO| "


def test_a_line_that_is_too_long_is_a_failure_that_says_so_to_its_end(monkeypatch):
    monkeypatch.setattr(ansible, "MAX_LOGGED_BYTES", 200)
    start = f'{ENTRY}ok: [h1] => {{"a": "'
    long = f"{start}{'x' * (200 - len(start))}{ENTRY}ok: [h2] => {{}}\n{ENTRY}ok: [h3] => {{}}\n"
    found = [*parse_answers(io.BytesIO(long.encode()), "secret")]
    assert [(each.host, each.kind, each.error) for each in found] == [
        ("h1", "failed", ansible.TOO_LONG),
        ("h3", "ok", ""),
    ]


@pytest.mark.parametrize("key", ["stdout", "stderr", "module_stdout", "module_stderr"])
def test_an_answer_that_was_cut_is_a_failure_that_says_so(monkeypatch, key):
    monkeypatch.setattr(ansible, "MAX_ANSWER_BYTES", 100)
    lines = "".join(f'{ENTRY}ok: [h{n}] => {{"{key}": "{"x" * n}"}}\n' for n in (99, 100, 101))
    found = [*parse_answers(io.BytesIO(lines.encode()), "secret")]
    assert [(each.kind, each.error == ansible.TOO_LONG) for each in found] == [
        ("ok", False),
        ("failed", True),
        ("failed", True),
    ]


def test_a_result_that_is_nested_deeply_is_empty():
    line = f'{ENTRY}ok: [h1] => {{"deep": {"[" * 200_000}{"]" * 200_000}}}\n'
    (found,) = parse_answers(io.BytesIO(line.encode()), "secret")
    assert (found.host, found.kind, found.result) == ("h1", "ok", {})


@pytest.fixture
def playbook(tmp_path, on_path):
    """Makes a playbook whose ansible-playbook is a script of the shell."""

    def made(script: str) -> Playbook:
        on_path("ansible-playbook", script)
        return Playbook(tmp_path / "hosts.yml", tmp_path / "log", 5, 0)

    return made


def test_what_its_user_configured_changes_neither_the_output_nor_a_variable(playbook, monkeypatch):
    expected = {
        "ANSIBLE_INJECT_FACT_VARS": "false",
        "ANSIBLE_CACHE_PLUGIN": "memory",
        "ANSIBLE_FORCE_COLOR": "false",
        "ANSIBLE_CALLBACK_FORMAT_PRETTY": "false",
        "ANSIBLE_NO_LOG": "false",
    }
    for name in expected:
        monkeypatch.setenv(name, "of the user")
    pairs = ", ".join(f'\\"{name}\\": \\"${name}\\"' for name in expected)
    entry = f'echo "1 2 p=3 u=$LOGNAME n=ansible | ok: [h1] => {{{pairs}}}"'
    played = playbook(f'{entry}; {entry} > "$ANSIBLE_LOG_PATH"')
    (answer,) = played.run(["check"], {"h1": {}})
    assert answer.result == expected
    assert played.log.read_text().count("ok: [h1]") == 1


@pytest.mark.parametrize("status", [0, 4])
def test_a_playbook_without_any_answer_is_an_error(playbook, status):
    with pytest.raises(VtaxError, match=f"status {status}, without an answer"):
        [*playbook(f"exit {status}").run(["check"], {"h1": {}})]


def test_the_program_of_a_killed_controller_ends_though_it_opens_its_log_later(playbook, tmp_path):
    """Else it would hold the campaign's lock for ever."""
    played = playbook(
        f"trap '' PIPE; touch {tmp_path}/began; until [ -e {tmp_path}/go ]; do sleep 0.02; done\n"
        f'echo late >> "$ANSIBLE_LOG_PATH"; touch {tmp_path}/ended'
    )
    code = (
        "from pathlib import Path; from vtax.campaign.ansible import Playbook\n"
        f"played = Playbook(Path({str(played.inventory)!r}), Path({str(played.log)!r}), 5, 0)\n"
        "[*played.run(['check'], {'h1': {}})]"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.DEVNULL) as controller:
        assert wait_until((tmp_path / "began").exists, 20, 0.02)
        controller.kill()
    (tmp_path / "go").touch()
    assert wait_until((tmp_path / "ended").exists, 20, 0.02)


def test_an_answer_that_is_no_json_is_none():
    with pytest.raises(ValueError, match="no object"):
        Answer("h1", "check", "ok", {"stdout": "[]"}).json()
    with pytest.raises(ValueError, match="Expecting value"):
        Answer("h1", "check", "ok", {}).json()
