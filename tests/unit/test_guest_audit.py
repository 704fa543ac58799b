"""Differences between what guests say they are."""

from vtax.guest.audit import ABSENT, changes, differences, started_alike, text_of, unknown_fields

NATIVE = {
    "kernel": "6.18",
    "cpu_flags": ["aes", "avx2", "sse"],
    "cpus": 2,
    "mitigation.mds": "Not affected",
}


def test_equal_guests_do_not_differ():
    assert differences({"native": NATIVE, "docker": dict(NATIVE)}) == ()
    assert differences({}) == ()
    assert differences({"native": NATIVE}) == ()


def test_a_difference_names_the_field_and_every_platforms_value():
    [found] = differences({"native": NATIVE, "lxc": NATIVE, "kvm": {**NATIVE, "kernel": "6.12"}})
    assert (found.field, found.values) == (
        "kernel",
        {"native": "6.18", "lxc": "6.18", "kvm": "6.12"},
    )


def test_lists_show_only_what_is_not_common():
    [found] = differences({"native": NATIVE, "tcg": {**NATIVE, "cpu_flags": ["sse", "svm"]}})
    assert found.values == {"native": "+aes +avx2", "tcg": "+svm"}
    [found] = differences({"native": NATIVE, "tcg": {**NATIVE, "cpu_flags": ["sse"]}})
    assert found.values["tcg"] == "(common items only)"


def test_lists_with_nothing_in_common_are_shown_whole():
    [found] = differences({"native": {"cpus_allowed": [1]}, "tcg": {"cpus_allowed": [0, 2]}})
    assert found.values == {"native": "1", "tcg": "0 2"}
    [found] = differences({"native": {"cpus_allowed": [1]}, "gvisor": {}})
    assert found.values == {"native": "1", "gvisor": "(not reported)"}


def test_sizes_are_reported_in_units_and_never_rounded_alone():
    assert text_of("536870912", "cgroup.memory") == "512 MiB"
    assert text_of(486637568, "memory_visible_bytes") == "464 MiB (486637568 bytes)"
    assert text_of("none", "cgroup.memory") == "none"
    assert text_of(0, "swap_bytes") == "0 B"
    assert text_of(1500, "interface.eth0.mtu") == "1500"
    printed = changes(
        [{"memory_visible_bytes": 25276510208}, {"memory_visible_bytes": 25276510209}]
    )
    assert all("23.5 GiB" in text for text in printed["memory_visible_bytes"])


def test_what_a_platform_does_not_show_is_a_difference():
    [found] = differences(
        {"native": NATIVE, "gvisor": {k: v for k, v in NATIVE.items() if k != "cpus"}}
    )
    assert found.values == {"native": "2", "gvisor": ABSENT}


def test_fields_can_be_chosen_by_name_or_by_group():
    other = {
        "kernel": "6.12",
        "cpu_flags": [],
        "cpus": 1,
        "mitigation.mds": "Vulnerable",
        "mitigation.l1tf": "x",
    }
    facts = {"native": NATIVE, "kvm": other}
    assert [d.field for d in differences(facts)] == sorted({*NATIVE, "mitigation.l1tf"})
    assert [d.field for d in differences(facts, ["mitigation", "cpu"])] == [
        "mitigation.l1tf",
        "mitigation.mds",
    ]
    assert [d.field for d in differences(facts, ["cpus"])] == ["cpus"]


def test_only_guests_that_were_started_alike_are_compared():
    small, large = (
        {**NATIVE, "started.topology": "router", "started.link": link}
        for link in ("mtu=500", "defaults")
    )
    groups = started_alike(
        [("native", small), ("lxc", large), ("native", large), ("native", small)]
    )
    assert groups == {
        "router, mtu=500": {"native": [small, small]},
        "router, defaults": {"lxc": [large], "native": [large]},
    }


def test_what_changed_between_guests_of_a_platform_is_reported_in_its_order():
    assert changes([NATIVE, NATIVE]) == {}
    assert changes([NATIVE, {**NATIVE, "kernel": "6.12"}, NATIVE]) == {"kernel": ("6.18", "6.12")}


def test_fields_that_no_audit_has_are_found():
    assert unknown_fields([NATIVE, {"link": 1}], ["mitigation", "kernel", "link"]) == ()
    assert unknown_fields([NATIVE], ["mitigations", "kern", "cpus"]) == ("mitigations", "kern")
