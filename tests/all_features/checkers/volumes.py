"""Volumes: one for each claim, each for one claim; a pod runs only where it reaches its volumes; nodes take no more
volumes of a driver than they say; and a claim for a single pod has one."""

from __future__ import annotations

from collections import Counter

from all_features.case import Case
from all_features.history import AFTER_CYCLE, Life
from all_features.scenario import key
from all_features.verdict import Verdict
from all_features.world import Document, Report

DRIVER = "csi.example.com"


def check(case: Case, verdict: Verdict) -> None:
    for sample in case.run.samples:
        _one_volume(sample, verdict)
        lives = [life for life in case.history.lives if life.pod.claims]
        there = [life for life in lives if life.occupies(sample["end"] + AFTER_CYCLE)]
        for life in there:
            _reaches(case, sample, life, verdict)
        _limits(case, sample, there, verdict)
        _single(case, sample, there, verdict)


def _one_volume(sample: Report, verdict: Verdict) -> None:
    claims = {name: told["volume"] for name, told in sample["claims"].items() if told["phase"] == "Bound"}
    verdict.judged["volumes: claims"] += len(claims)
    for volume, count in Counter(claims.values()).items():
        if count > 1:
            verdict.fail("volumes", sample["end"], f"{volume} is the volume of {count} claims")
    for name, volume in claims.items():
        if volume in sample["volumes"] and sample["volumes"][volume]["claim"] != name:
            text = f"{name} has {volume}, which is for {sample['volumes'][volume]['claim']}"
            verdict.fail("volumes", sample["end"], text)
    named = Counter(told["claim"] for told in sample["volumes"].values() if told["claim"])
    for name, count in named.items():
        if count > 1:
            verdict.fail("volumes", sample["end"], f"{count} volumes are for {name}")


def _reaches(case: Case, sample: Report, life: Life, verdict: Verdict) -> None:
    for bare in life.pod.claims:
        name = f"{life.pod.namespace}/{bare}"
        told = sample["claims"].get(name)
        verdict.judged["volumes: pods"] += 1
        if told is None or told["phase"] != "Bound":
            verdict.fail(
                "volumes", sample["end"], f"{life.pod.key} runs, and its claim {name} is {told and told['phase']}"
            )
            continue
        existing = next(
            (one for one in case.scenario.of("PersistentVolume") if one["metadata"]["name"] == told["volume"]), None
        )
        if existing is not None:
            nodes = _nodes_of(existing)
            if nodes and life.node not in nodes:
                verdict.fail(
                    "volumes", sample["end"], f"{life.pod.key} on {life.node} cannot reach {told['volume']}: {nodes}"
                )
        elif told["node"] and _zone(case, told["node"]) != _zone(case, life.node) and _has_topology(case, told["node"]):
            text = f"{life.pod.key} runs on {life.node}, and its volume was made for {told['node']} in another zone"
            verdict.fail("volumes", sample["end"], text)


def _nodes_of(volume: Document) -> list[str]:
    terms = volume["spec"].get("nodeAffinity", {}).get("required", {}).get("nodeSelectorTerms", [])
    return [value for term in terms for field in term.get("matchFields", []) for value in field["values"]]


def _zone(case: Case, node: str) -> str:
    for document in case.scenario.of("Node"):
        if document["metadata"]["name"] == node:
            return str(document["metadata"]["labels"].get("topology.kubernetes.io/zone", ""))
    return ""


def _has_topology(case: Case, node: str) -> bool:
    return any(one["metadata"]["name"] == node for one in case.scenario.of("CSINode"))


def _limits(case: Case, sample: Report, there: list[Life], verdict: Verdict) -> None:
    existing = {one["metadata"]["name"] for one in case.scenario.of("PersistentVolume")}  # of no driver
    for document in case.scenario.of("CSINode"):
        driver = document["spec"]["drivers"][0]
        limit = driver.get("allocatable", {}).get("count")
        if limit is None:
            continue
        name = document["metadata"]["name"]
        verdict.judged["volumes: limits"] += 1
        attached = {
            sample["claims"].get(f"{life.pod.namespace}/{bare}", {}).get("volume")
            for life in there if life.node == name for bare in life.pod.claims
        } - {None, "", *existing}  # fmt: skip
        if len(attached) > limit:
            verdict.fail("volumes", sample["end"], f"{name} takes {limit} volumes and has {len(attached)}")


def _single(case: Case, sample: Report, there: list[Life], verdict: Verdict) -> None:
    users = Counter(f"{life.pod.namespace}/{bare}" for life in there for bare in life.pod.claims)
    for claim in case.scenario.of("PersistentVolumeClaim"):
        if "ReadWriteOncePod" in claim["spec"]["accessModes"] and users[key(claim)] > 1:
            verdict.fail("volumes", sample["end"], f"{users[key(claim)]} pods use {key(claim)}")
