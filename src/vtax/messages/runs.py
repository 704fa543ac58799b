"""Sentences of a run as a whole, its host, its guests and its trials: code -> sentence, see vtax.messages."""

from __future__ import annotations

from collections.abc import Mapping

SENTENCES: Mapping[str, str | tuple[str, str]] = {
    "emulated-host": "the CPU of this host is emulated: figures, including native ones, say little about physical CPUs",
    "session-effects": "a side was measured once: no interval shows what a reboot, an update, heat or other tenants change between "
    "sessions; measure both sides in several",
    "host-busy": "other programs used {cpus} CPUs during trials",
    "host-steal": "CPU steal of {share}",
    "host-memory": "programs on the host waited for memory {share} of the time",
    "host-swap": "the host swapped {pages} pages during the trial",
    "host-frequency": "the CPU frequency changed by {change} from before the trial to after it",
    "host-throttled": "a CPU was slowed {times} times because it was hot",
    "throttled": "a quota of CPU time stopped the guest in {share} of its periods, {seconds} s in all",
    "failed-without-message": "the trial failed",
    "clock": "the guest's wall clock was {offset} off the host's; durations are measured on the host's clock",
    "drift": "the figures drift over the run by {change} ({p}): {cause}",
    "drift-of-cells": "the figures of {cells} cells drift over the run by {change} ({p}): {cause}",
    "drift-of-cells-between": "the figures of {cells} cells drift over the run by {low} to {high} ({p}): {cause}",
    "clock-rate": "the guest's clock ran {rate} times as fast as the host's (± {error}), off by more than the margin of "
    "{margin}: times and rates that the tool took from it are wrong by as much",
    "clock-goes-back": "{platform}: between two CPUs of a guest its clock {what}: a time that a tool takes across them can be below 0",
    "clock-skew": "the guest's clock measured {inside} s, the host's {outside} s; times measured by the tool have this error",
    "truncated": "the output of {role} is longer than what is kept of it",
    "cold-image": "{size} MiB of the image's files stayed in the host's page cache: starts are partly warm",
    "starts-failed": "{failed} of {total} guests did not start, and times are those of the others; the first: {reason}",
    "overcommit": (
        "{guests} guests of {count} vCPU share {total} host CPUs: figures include waiting for a CPU",
        "{guests} guests of {count} vCPUs share {total} host CPUs: figures include waiting for a CPU",
    ),
    "packet-size": "packet_bytes: requested {requested}, effective {found} (mean of those with data at {hop})",
    "packets-not-counted": "packet_bytes: requested {requested}, and no hop counted {minimum} packets",
    "not-a-wire": "{found} transactions/s of {request} and {response} bytes: a wire of {rate} Mbit/s carries {limit}, so its "
    "limit and delay are not in the figure",
    "undelayed": "messages of {request} and {response} bytes pass the link at once, and a wire takes its time for them: this "
    "kernel has no {module}",
    "link-mtu": "{name}: MTU requested {requested}, effective {found}",
    "link-queues": "{name}: queues requested {requested}, effective {found}",
    "link-offload": "{name}: offload {feature} requested {requested}, not supported",
    "token-bucket": (
        "the link limits the rate to {rate} Mbit/s, but delays no single frame as a wire would: this kernel has no "
        "{module}",
        "the link limits the rate to {rate} Mbit/s, but delays no burst of up to {count} frames as a wire would: "
        "this kernel has no {module}",
    ),
    "link-echo": "{what}; {size} bytes there and back took {found} us over it, and a wire needs {limit} us",
    "topology": "{topology}: {what}",
    "switch-in-kernel": "the switch runs in the kernel",
    "end-elsewhere": "the {role} is {platform}: {nic} of this host leads to its {there}",
    "other-tool-version": "{tool} is {there} on {machine}, and {here} in the guests",
    "sequential-order": "all blocks of one platform ran before the next, so drift of the host is confounded with platforms",
    "study-changed": "the study was changed by {option}: {changes}",
    "boots": "platforms were measured in different boots of the host ({boots}); a difference between them contains that "
    "of two boots, of which every session had its own",
    "boots-once": "platforms were measured in different boots of the host ({boots}), each made once: what a boot changes "
    "is part of every difference between them, and in no interval",
    "trusted": "the study ran these programs as root: {programs}",
    "trusted-file": "the study (SHA-256 {digest}) ran these programs as root: {programs}",
    "refused": "{reason}",
    "different-settings": "{label}: {name} is {known} on {other} and {found} on {platform}; this difference is part of what is "
    "measured",
    "left-behind": "{text}",
    "session-added": (
        "session {session} was added after the result of {count} planned session was known; no interval allows for "
        "that look",
        "session {session} was added after the result of {count} planned sessions was known; no interval allows for "
        "that look",
    ),
    "blocks-added": "blocks were added after the result of blocks 1 to {blocks} was known; no interval or verdict allows for "
    "that look",
    "another-boot": "the host was rebooted within session {session}: its blocks are of several boots",
    "plugins-changed": "plug-ins that are not part of vtax changed before the run was resumed",
    "resumed": "the run was stopped {place} block {block} and resumed{later}",
    "resumed-parted": "the run was stopped {place} block {block} and resumed{later}; its cells on {platforms} come from two guests",
    "tuned": "the host was tuned for this run: {changes}",
    "merged-again": "some of these runs were merged before, as {runs}: a run that is added or left out after that result was "
    "known is a look that no interval allows for",
    "image-unknown": "what the images of {runs} held is not known: packages may differ between images of one recipe",
    "host-changed": "the host changed before the run was resumed: {changes}",
    "host-changed-session": "the host changed before session {session}: {changes}",
    "switch-in-user-space": "the switch runs in user space (the kernel has no datapath), so offloads are off at every end",
    "not-finite": "not a finite number: {names}",
    "killed": "vtax was killed",
    "session-begun": "session {session} has no trial yet",
    "session-complete": "session {session} of {total} is complete: {reason}",
    "merged": "merged from {count} runs",
    "host-cache": "files of {size} do not fit the memory of the guest ({guest}), and below its disk the page cache of this "
    "host ({host}) holds them",
    "disappeared": "the {places} of the trial disappeared: {what}",
}

TERMS = ("in or after", "after", "within")
"""Words that data of a note may name as `place`."""
