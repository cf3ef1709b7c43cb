"""Runs a world, and asks every checker."""

from __future__ import annotations

from collections.abc import Callable

from all_features.case import Case, case_of
from all_features.checkers import (
    books,
    budgets,
    domains,
    explanations,
    gangs,
    gates,
    ledger,
    liveness,
    locks,
    moves,
    promises,
    quotas,
    repetition,
    reservations,
    shares,
    starvation,
    volumes,
)
from all_features.tallies import count
from all_features.verdict import Verdict
from all_features.world import World

CHECKERS: dict[str, Callable[[Case, Verdict], None]] = {
    "ledger": ledger.check, "gangs": gangs.check, "quotas": quotas.check, "books": books.check,
    "locks": locks.check, "reservations": reservations.check, "volumes": volumes.check, "budgets": budgets.check,
    "moves": moves.check, "explanations": explanations.check, "liveness": liveness.check,
    "shares": shares.check, "promises": promises.check, "starvation": starvation.check,
    "domains": domains.check, "gates": gates.check,
}  # fmt: skip


def judge(world: World, seed: int, *, only: str = "", repeat: bool = True) -> Verdict:
    """`only`: one checker; `repeat`: also run it in another order, and with restarts."""
    verdict = Verdict()
    try:
        run = world.observe()
    except Exception as error:
        verdict.fail("error", 0.0, f"{type(error).__name__}: {error}")
        return verdict
    case = case_of(run)
    for name, check in CHECKERS.items():
        if only in ("", name):
            check(case, verdict)
    if repeat and only in ("", "repetition", "error"):
        try:
            repetition.check(run, seed, verdict)
        except Exception as error:
            verdict.fail("error", 0.0, f"{type(error).__name__}: {error}")
    count(case, verdict)
    return verdict
