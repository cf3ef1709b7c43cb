"""A seed is its history: again, with other hashes, and after the plan was written to a file."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from .__main__ import coverage, main
from .meetings import ACTS
from .mistakes import MISTAKES, Mistake
from .plan import MINUTES, Plan, draw
from .run import judge
from .shrink import shrink
from .simulated.rules import FAULTS
from .step import Step

ROOT = Path(__file__).parents[2]
_DIGEST = (
    "import sys; from tests.faults.run import judge; from tests.faults.plan import draw; print(judge(draw(8)).digest)"
)


def test_a_seed_has_the_same_history_whatever_the_hashes_are() -> None:
    digests = {judge(draw(8)).digest}
    for hashes in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": hashes}
        done = subprocess.run(
            [sys.executable, "-c", _DIGEST], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
        )
        digests.add(done.stdout.strip())
    assert len(digests) == 1


def test_a_plan_is_its_file() -> None:
    plan = draw(3)
    assert Plan.from_json(plan.to_json()) == plan
    assert draw(4) != plan


def test_every_fault_is_drawn_and_none_after_the_calm() -> None:
    plans = [draw(seed) for seed in range(1, 301)]
    drawn = Counter(step.arguments["fault"] for plan in plans for step in plan.steps if step.do == "fault")
    assert set(drawn) == set(FAULTS)
    acts = {step.do for plan in plans for step in plan.steps}
    assert acts >= {"kill", "freeze", "trap", "partition", "stop", "clock", "crash-server", "compact", "lose", "shrink",
                    "cordon", "delete-node", "flash", "bad-job", "correct-job"}  # fmt: skip
    met = {step.arguments["act"] for plan in plans for step in plan.steps if step.do == "meet"}
    assert met == set(ACTS)
    assert any(plan.calm == MINUTES for plan in plans)
    assert all(step.at < plan.calm for plan in plans for step in plan.steps)


def test_only_the_steps_that_are_needed_are_left() -> None:
    steps = [Step(float(at), "job", {"name": f"job{at}"}) for at in range(20)]
    needed = [steps[3], steps[11]]
    asked = []

    def fails(plan: Plan) -> bool:
        asked.append(plan)
        return all(step in plan.steps for step in needed)

    assert shrink(Plan(1, {"n0": 4}, steps), fails).steps == needed
    assert len(asked) < 60


def test_the_table_of_coverage_says_what_was_hit() -> None:
    hits = Counter({("409", "POST pods/binding"): 3, ("409", "PUT leases"): 1, ("stale-read", "LIST pods"): 2})
    lines = coverage(hits).splitlines()
    assert lines[0].startswith("409 ")
    assert lines[0].endswith("4    2 kinds: POST pods/binding 3, PUT leases 1")
    assert lines[1].split()[:2] == ["stale-read", "2"]


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_that_must_be_noticed_can_still_be_made(name: str) -> None:
    mistake: Mistake | None = MISTAKES[name]
    while mistake is not None:
        code = (ROOT / "src" / "stromboli" / mistake.file).read_text()
        assert code.count(mistake.right) == 1
        compile(code.replace(mistake.right, mistake.wrong), mistake.file, "exec")
        mistake = mistake.also


def test_the_command_replays_and_soaks(capsys) -> None:  # type: ignore[no-untyped-def]
    assert main(["--replay", "5"]) == 0
    history = capsys.readouterr().out
    assert "became the leader" in history
    assert judge(draw(5)).digest in history
    assert main(["--seeds", "2", "--first", "5"]) == 0
    assert "2 worlds in" in capsys.readouterr().out
