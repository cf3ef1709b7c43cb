"""Explanations: every waiting pod has a reason and a message, and node counts add up to the nodes there are (38)."""

from __future__ import annotations

import re

from all_features.case import Case
from all_features.verdict import Verdict
from all_features.world import Report

_NODES = re.compile(r"(\d+) of (\d+) nodes (?:is|are) available(?:: |\.)")


def check(case: Case, verdict: Verdict) -> None:
    for sample in [*case.run.samples, case.report]:
        for name, told in sample["pods"].items():
            if told["phase"] == "Pending":
                _judge(case, sample, name, told["reason"], told["message"], verdict)


def _judge(case: Case, sample: Report, name: str, reason: str, message: str, verdict: Verdict) -> None:
    time = sample["end"]
    verdict.judged["explanations: waiting pods"] += 1
    away = case.away(time, "scheduler", "controllers")
    # A pod that a controller made after the cycle was not looked at yet, and neither one whose job is not admitted.
    new = any(at == time for at in case.history.submitted[name])
    if not message and not away and not new:
        verdict.fail("explanations", time, f"{name} waits without a message (reason {reason!r})")
    for found in _NODES.finditer(message):
        available, number = int(found[1]), int(found[2])
        verdict.judged["explanations: node counts"] += 1
        listed = sum(_counts(message[found.end() :])) if message[found.end() - 2 : found.end()] == ": " else 0
        if away:
            continue
        if number != len(sample["nodes"]):
            verdict.fail("explanations", time, f"{name}: there are {len(sample['nodes'])} nodes: {message}")
        elif available + listed != number:
            verdict.fail("explanations", time, f"{name}: {available} and {listed} are not {number}: {message}")


def _counts(rest: str) -> list[int]:
    """The numbers that begin the parts of a list, which ends with the sentence."""
    found, depth, part = [], 0, ""
    for position, letter in enumerate(rest):
        depth += (letter == "(") - (letter == ")")
        ends = letter == "." and not depth and rest[position + 1 : position + 2] in ("", " ")
        if (letter in ",;" and not depth) or ends:
            if number := re.match(r"\s*(?:and )?(\d+) ", part):
                found.append(int(number[1]))
            part = ""
            if ends:
                return found
        else:
            part += letter
    return found
