"""What `stromboli why` says would start a job does start it, in random clusters as well."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from console.applied import starts_after
from console.situations import Document, Situation
from console.test_why import found_for
from explanations.worlds import World, world

WORLDS = 4


def before(document: Document, time: float) -> bool:
    """Whether the document plays a part by then. `why` assumes that nobody submits more."""
    at = document.get("metadata", {}).get("annotations", {}).get("sim.stromboli.io/at", "0s")
    return float(at.removesuffix("s")) <= time


def waiting_jobs(drawn: World) -> list[Situation]:
    report = drawn.situation().run()
    works = {drawn.work_of(name) for name, pod in report["pods"].items() if pod["phase"] == "Pending"}
    names = {work.name for work in works if work is not None}
    names |= {name for name, job in report["jobs"].items() if job["started"] is None}
    documents = [document for document in drawn.documents if before(document, drawn.until)]
    return [Situation(documents, name, drawn.until, json.dumps(drawn.config)) for name in sorted(names)]


@pytest.mark.parametrize("seed", range(WORLDS))
def test_counterfactuals_hold(seed: int, tmp_path: Path) -> None:
    for situation in waiting_jobs(world(seed)):
        found = found_for(situation, tmp_path)
        assert found.starts_now == starts_after(situation, None, tmp_path), situation.job
        for one in found.counterfactuals:
            assert starts_after(situation, one.change, tmp_path), f"{situation.job} {one.sentence}"
