"""Warnings of benchmarks and their parsers, and what was seen of their files: code -> sentence."""

from __future__ import annotations

from collections.abc import Mapping

SENTENCES: Mapping[str, str | tuple[str, str]] = {
    "tool-said": "{text}",
    "out-of-memory": "out of memory: the {role} has {memory}; {what}",
    "killed-in-trial": (
        "out of memory: {count} process of the {role}, which has {memory}, was killed in this trial",
        "out of memory: {count} processes of the {role}, which has {memory}, were killed in this trial",
    ),
    "killed-after": "{program} was killed after {limit} s",
    "hint-timeout": "raise timeout in [design], or of the program, if the tool is only slow here",
    "file-not-twice-memory": "the file of {size} is not twice the memory, {guest} of the guest and {host} of the host: caches served "
    "part of it",
    "too-fast-to-time": "too fast to time, no value: {names}; raise size or files",
    "figure-left-out": "left out, as it is impossible: {text}",
    "guest-cache": "the guest's page cache is part of this figure (cache = 'cached')",
    "guest-cache-unflushed": "the guest's page cache is part of this figure: no write was flushed (fsync = 0)",
    "cache-below": "a cache below the guest may have served reads: the host's, where the disk is a file",
    "cache-below-direct": "direct ends at the guest's own disk; where that is a file of the host, its cache may serve it",
    "cache-left": "{size} of the guest's files stayed in the host's page cache, which is not all cold",
    "flushes-short": (
        "a flush (fsync) of the guest: most reached no device, as the host's disks completed {writes} writes",
        "{count} flushes (fsync) of the guest: most reached no device, as the host's disks completed {writes} writes",
    ),
    "flushes-none": (
        "a flush (fsync) of the guest reached no device: no disk of the host completed a write",
        "{count} flushes (fsync) of the guest reached no device: no disk of the host completed a write",
    ),
    "disks-direct": "direct: the host's disks moved {share} of the bytes; a cache below the guest had the rest",
    "disks-below": "the host's disks moved {share} of the bytes; a cache, of the guest or below it, had the rest",
    "not-as-requested": "{name}: requested {requested}, effective {found}",
    "buffer-not-as-requested": "{name}: requested {requested} bytes (which the kernel doubles), effective {found}",
    "rate-not-reached": "rate: requested {requested} {unit}, effective {found}",
    "sender-slower": "rate_mbit_s: requested {requested} ({direction}, all streams), sent {found}; loss and jitter are those of "
    "the lower rate",
    "load-lower": "messages_per_second: requested {requested}, sent {found}; latencies are those of the lower load",
    "two-cpus": "the guest did not bind both sides to one CPU: they may have run on two, without switches",
    "threads-share-cpus": "more threads ({threads}) than CPUs ({cpus}): they share CPU time",
    "huge-pages-unknown": "the guest's kernel does not say whether the working set is in huge pages",
    "huge-pages-missing": "huge pages were requested: {part} of the working set of {size} is in them",
    "few-transactions": "a rate of {found} transactions: fewer than {minimum} say little; count asks for more",
    "confidence-missed": "netperf missed its confidence: its {percent} % interval is {found} % of the mean after {iterations} "
    "iterations, {requested} % was requested",
    "loops-short": "the loops lasted {found} s: a round trip to the guest is part of the figure; raise {parameter}",
    "clients-wait": "{clients} clients on {branches} branches: they wait for each other; raise scale",
    "digits-not-verified": "the last digits are not verified: vtax knows those of up to {limit} digits, and of {known}",
    "client-saturated": (
        "the client {tool} used {share} of its {count} CPU: it may be the limit, not the server",
        "the client {tool} used {share} of its {count} CPUs: it may be the limit, not the server",
    ),
    "cache-size-unknown": "the host does not say how large its last-level cache is; STREAM's size rule is unchecked",
    "array-in-cache": "array of {size} is below {times}x the last-level cache ({cache}): part of the figure is the cache's",
    "kernel-short": "a kernel ran for less than 1 ms: raise array_size for a figure above the clock resolution",
    "few-events": "only {found} events: measure longer, or lower cpu_max_prime",
    "transactions-repeated": "{failed} transactions failed and were repeated, {lost} connections were lost",
}

TERMS = (
    "send buffer",
    "receive buffer",
    "local send buffer",
    "local receive buffer",
    "remote send buffer",
    "remote receive buffer",
    "peer send buffer",
    "peer receive buffer",
)
"""Words that data of a note may name as `name`."""
