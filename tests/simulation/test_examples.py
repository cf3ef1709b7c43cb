"""The examples show what their first lines say, with the scheduler and the controllers of the product."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from simulation.scenario_runner import happened
from stromboli.console.main import run

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.yaml"))


@pytest.fixture
def report(request: pytest.FixtureRequest, capfdbinary: pytest.CaptureFixture[bytes]) -> dict[str, Any]:
    assert run(["simulate", str(EXAMPLES / f"{request.param}.yaml"), "--output", "json"]) == 0
    told: dict[str, Any] = json.loads(capfdbinary.readouterr().out)
    return told


@pytest.mark.parametrize("name", NAMES)
def test_every_example_says_what_it_shows_and_fits_a_page(name: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    first, second = (EXAMPLES / f"{name}.yaml").read_text(encoding="utf-8").splitlines()[:2]
    assert first.startswith("# ")
    assert second == "#"
    assert run(["simulate", str(EXAMPLES / f"{name}.yaml")]) == 0
    lines = capfdbinary.readouterr().out.decode().splitlines()
    assert len(lines) <= 60
    assert max(map(len, lines)) <= 100


@pytest.mark.parametrize("report", ["gang"], indirect=True)
def test_one_gang_after_the_other(report: dict[str, Any]) -> None:
    # Four places, three pods each: never pods of both at a time.
    bound = {name: pod["bound"] for name, pod in report["pods"].items()}
    first = {bound[f"lab/training-1-worker-{n}"] for n in range(3)}
    second = {bound[f"lab/training-2-worker-{n}"] for n in range(3)}
    assert len(first) == len(second) == 1
    assert min(second) >= min(first) + 30
    assert {name: job["phase"] for name, job in report["jobs"].items()} == {
        "lab/training-1": "Completed", "lab/training-2": "Completed",
    }  # fmt: skip


@pytest.mark.parametrize("report", ["queues"], indirect=True)
def test_gold_takes_back_its_share_and_no_more(report: dict[str, Any]) -> None:
    # 8 CPUs at 1 : 3 are 2 and 6; bronze had all 8, so 6 go.
    assert len(happened(report, "Evicted")) == 6
    assert report["queues"]["bronze"]["allocated"] == {"cpu": "2"}
    assert report["queues"]["gold"]["allocated"] == report["queues"]["gold"]["deserved"] == {"cpu": "6"}


@pytest.mark.parametrize("report", ["notebooks"], indirect=True)
def test_notebooks_start_at_once_and_are_never_evicted(report: dict[str, Any]) -> None:
    # Two CPUs are guaranteed, so ada evicts nobody. Bob needs two more: two pods of the sweep, and one cycle.
    pods = report["pods"]
    assert (pods["notebooks/ada"]["bound"], pods["notebooks/bob"]["bound"]) == (10.0, 21.0)
    assert [(at, subject.rpartition("-")[0]) for at, _, subject in happened(report, "Evicted")] == 2 * [
        (20.0, "default/sweep")
    ]


@pytest.mark.parametrize("report", ["preemption"], indirect=True)
def test_one_makes_room_for_the_urgent_pod(report: dict[str, Any]) -> None:
    # It comes at 10, the victim is gone at 13, and its successor takes the room when the urgent pod ends at 33.
    [evicted] = happened(report, "Evicted")
    assert evicted[0] == 10.0
    assert (report["pods"]["default/urgent"]["bound"], report["pods"]["default/urgent"]["finished"]) == (13.0, 33.0)
    assert report["pods"]["default/long-2"]["bound"] == 33.0


@pytest.mark.parametrize("report", ["namespaces"], indirect=True)
def test_namespaces_get_their_weights(report: dict[str, Any]) -> None:
    running = Counter(name.partition("/")[0] for name, pod in report["pods"].items() if pod["phase"] == "Running")
    assert running == {"alice": 2, "bob": 2, "carol": 4}
    assert report["namespaces"]["default/carol"] == {"allocated": {"cpu": "4"}, "weight": 2}


@pytest.mark.parametrize("report", ["retries"], indirect=True)
def test_the_flaky_job_gives_up_and_the_pipeline_starts_in_steps(report: dict[str, Any]) -> None:
    assert {name: job["phase"] for name, job in report["jobs"].items()} == {
        "lab/flaky": "Failed", "lab/pipeline": "Completed",
    }  # fmt: skip
    assert len([event for event in happened(report, "Finished") if event[2] == "lab/flaky-main-0"]) == 3
    pods = report["pods"]
    assert pods["lab/pipeline-extract-0"]["submitted"] == 0.0
    assert pods["lab/pipeline-load-0"]["submitted"] == pods["lab/pipeline-extract-1"]["bound"] == 1.0


@pytest.mark.parametrize("report", ["maintenance"], indirect=True)
def test_patches_are_felt(report: dict[str, Any]) -> None:
    pods = report["pods"]
    assert (pods["default/monday"]["node"], pods["default/tuesday"]["node"]) == ("node-a", "node-b")
    assert pods["default/wednesday"]["bound"] == 40.0


@pytest.mark.parametrize("report", ["demo"], indirect=True)
def test_the_demo_has_everything(report: dict[str, Any]) -> None:
    reasons = Counter(event["reason"] for event in report["events"] if event["type"] == "Evicted")
    # The gang wants 16 CPUs and 2 are free: 7 workers of 2 are reclaimed. One more is preempted.
    assert reasons == {"Reclaimed": 7, "Preempted": 1}
    assert len({report["pods"][f"science/render-frame-{n}"]["bound"] for n in range(4)}) == 1
    assert report["pods"]["web/sweeper"]["bound"] == 5.0
    assert report["pods"]["science/monster"]["reason"] == "InsufficientNode"
