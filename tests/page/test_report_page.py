"""`stromboli simulate --report`: one file with everything in it, always the same bytes."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from descheduling.scenes import defragment, node, policy, replicas
from stromboli.console.main import run
from stromboli.page import ASSETS, Document, asset, self_contained
from stromboli.page.assets_on_disk import SCRIPTS

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def report(tmp_path: Path, *arguments: str) -> str:
    path = tmp_path / "report.html"
    assert run(["simulate", *arguments, "--report", str(path)]) == 0
    return path.read_text(encoding="utf-8")


def document_in(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="document">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    decoded = json.loads(found[1])
    assert isinstance(decoded, dict)
    return decoded


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return document_in(report(tmp_path_factory.mktemp("demo"), str(EXAMPLES / "demo.yaml")))


def test_equal_runs_give_equal_bytes(tmp_path: Path) -> None:
    scenario = str(EXAMPLES / "queue-locks.yaml")
    assert report(tmp_path, scenario) == report(tmp_path, scenario)


def test_the_file_needs_nothing_else(tmp_path: Path) -> None:
    page = report(tmp_path, str(EXAMPLES / "gang.yaml"))
    assert not re.search(r'(?:src|href)="(?!data:,|#)', page)
    assert set(re.findall(r"https?://[^\"'\s;]+", page)) == {"http://www.w3.org/2000/svg"}  # a name, not an address
    assert not re.search(r"^import\b", page, re.MULTILINE)


def test_the_policy_allows_these_bytes_only(tmp_path: Path) -> None:
    page = report(tmp_path, str(EXAMPLES / "gang.yaml"))
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    allowed = policy[1].replace("&#x27;", "'")
    assert allowed.startswith("default-src 'none'")
    assert "unsafe" not in allowed
    for tag in ("style", 'script type="module"'):
        content = re.search(rf"<{tag}>(.*?)</{tag.split()[0]}>", page, re.DOTALL)
        assert content is not None
        digest = base64.b64encode(hashlib.sha256(content[1].encode()).digest()).decode()
        assert f"'sha256-{digest}'" in allowed


def test_names_cannot_become_markup() -> None:
    page = self_contained(Document(title="</script><b>", clock="virtual", start=0, end=1)).decode()
    assert "</script><b>" not in page
    assert document_in(page)["title"] == "</script><b>"
    assert "<title>&lt;/script&gt;&lt;b&gt; – Stromboli</title>" in page


def test_scripts_share_no_name_and_import_downwards() -> None:
    """In the report they are one script, in this order."""
    names: dict[str, str] = {}
    for number, script in enumerate(SCRIPTS):
        text = asset(script)
        for name in re.findall(r"^(?:export )?(?:async )?(?:function|class|const|let) (\w+)", text, re.MULTILINE):
            assert name not in names, f"{name} is in {names[name]} and in {script}"
            names[name] = script
        for imported in re.findall(r'from "\./([\w.]+)"', text):
            assert imported in SCRIPTS[:number], f"{script} imports {imported}"
        assert len(text.splitlines()) <= 350, f"{script}: split it by idea"
    assert {path.name for path in (EXAMPLES.parent / "src/stromboli/page/assets").iterdir()} == set(ASSETS)


def test_what_is_imported_is_exported() -> None:
    for script in SCRIPTS:
        for listed, source in re.findall(r'^import \{([^}]*)\} from "\./([\w.]+)";', asset(script), re.MULTILINE):
            for name in re.findall(r"\w+", listed):
                exported = rf"^export (?:async )?(?:function|class|const|let) {name}\b"
                assert re.search(exported, asset(source), re.MULTILINE), f"{script}: {name} is not in {source}"
                uses = len(re.findall(rf"\b{name}\b", asset(script)))
                assert uses > 1, f"{script} does not use {name}"


# -- what is in it ------------------------------------------------------------------------------------------------


def test_utilisation_over_time(demo: dict[str, Any]) -> None:
    """24 CPUs. From 0 s web uses 22 of them; at 11 s seven of its pods are evicted; from 12 s everything is used."""
    series = demo["series"]
    used = dict(zip(series["times"], series["resources"]["cpu"]["used"], strict=True))
    assert set(series["resources"]["cpu"]["capacity"]) == {24000.0}
    assert (used[0.0], used[11.0], used[12.0]) == (22000.0, 8000.0, 24000.0)


def test_queue_length_over_time(demo: dict[str, Any]) -> None:
    """The gang of four waits from 10 s to 12 s; then the seven evicted pods of web wait for its end."""
    series = demo["series"]
    pods = dict(zip(series["times"], series["waitingPods"], strict=True))
    jobs = dict(zip(series["times"], series["waitingJobs"], strict=True))
    assert (pods[0.0], pods[10.0], pods[12.0]) == (0.0, 4.0, 7.0)
    assert (jobs[10.0], jobs[12.0]) == (1.0, 0.0)


def test_shares_over_time(demo: dict[str, Any]) -> None:
    series = demo["series"]
    assert series["queues"].keys() == {"web", "science"}
    assert series["namespaces"].keys() == {"web/web", "science/science"}
    position = series["times"].index(12.0)
    assert series["queues"]["science"][position] == pytest.approx(16 / 24, abs=1e-5)


def test_jobs_with_their_times_and_reasons(demo: dict[str, Any]) -> None:
    jobs = {job["key"]: job for job in demo["jobs"]}
    render, monster, crawler = jobs["science/render"], jobs["science/monster"], jobs["web/crawler"]
    assert (render["submitted"], render["started"], render["ended"]) == (10.0, 12.0, 72.0)
    assert (render["state"], render["runs"], render["pods"]) == ("succeeded", [[12.0, 72.0]], {"Succeeded": 4})
    assert (monster["state"], monster["reason"], monster["waited"]) == ("waiting", "InsufficientNode", 22.0)
    assert monster["message"].startswith("The pod can never start")
    assert (crawler["kind"], crawler["evictions"]) == ("ReplicaSet", 8)


def test_every_pod_has_its_time_on_a_node(demo: dict[str, Any]) -> None:
    spans = [span for span in demo["spans"] if span[1] == "web/crawler-4"]
    assert [(span[2], span[3], span[4], span[5], span[6]) for span in spans] == [
        ("web/crawler", "node-b", 0.0, 40.0, "Evicted")
    ]
    assert len(demo["evictions"]) == 8
    assert {eviction["reason"] for eviction in demo["evictions"]} == {"Reclaimed", "Preempted"}


def test_nodes_that_are_locked_and_reserved(tmp_path: Path) -> None:
    locked = document_in(report(tmp_path, str(EXAMPLES / "queue-locks.yaml")))
    assert {mark["kind"] for mark in locked["marks"]} == {"locked"}
    assert {mark["owner"] for mark in locked["marks"]} == {"clinic"}
    config = tmp_path / "scheduler.yaml"
    config.write_text(
        "actions: 'enqueue, allocate, reserve, backfill'\n"
        "configurations: [{name: reserve, arguments: {starvingJobTimeThreshold: 20s}}]\n"
        "tiers: [{plugins: [{name: priority}, {name: gang}, {name: drf}, {name: predicates}, {name: proportion}]}]\n"
    )
    starved = document_in(report(tmp_path, str(EXAMPLES / "starvation.yaml"), "--config", str(config)))
    assert ("node-a", "reserved", "default/training") in {
        (mark["node"], mark["kind"], mark["owner"]) for mark in starved["marks"]
    }


def test_pods_that_were_moved(tmp_path: Path) -> None:
    """Node a has 8 of 10 CPUs in use, b has 1. The pod of b moves to a: then 9 and 0."""
    documents = [
        node("a", cpu=10), node("b", cpu=10), *replicas("full", "a", 8, cpu=1), *replicas("low", "b", 1, cpu=1)
    ]  # fmt: skip
    scenario, chosen = tmp_path / "scenario.yaml", tmp_path / "policy.yaml"
    scenario.write_text("\n---\n".join(json.dumps(one) for one in documents))
    chosen.write_text(json.dumps(policy(defragment("cpu", low=30, middle=75, high=95))))
    page = report(tmp_path, str(scenario), "--descheduler-config", str(chosen), "--until", "60s")
    moves = document_in(page)["migrations"]
    assert [(move["pod"], move["job"], move["source"], move["target"]) for move in moves] == [
        ("default/low-0", "default/low", "b", "a")
    ]
    assert (moves[0]["phase"], moves[0]["reason"]) == ("Succeeded", "Defragmentation")
    assert (moves[0]["sourceBefore"], moves[0]["sourceAfter"]) == (0.1, 0.0)
    assert (moves[0]["targetBefore"], moves[0]["targetAfter"]) == (0.8, 0.9)
    held = [mark for mark in document_in(page)["marks"] if mark["kind"] == "held"]
    assert {mark["node"] for mark in held} == {"a"}


def test_a_job_that_starts_again_is_one_job(tmp_path: Path) -> None:
    found = document_in(report(tmp_path, str(EXAMPLES / "retries.yaml")))
    keys = [job["key"] for job in found["jobs"]]
    assert len(keys) == len(set(keys))
    assert {span[2] for span in found["spans"]} <= set(keys)


def test_a_run_without_anything(tmp_path: Path) -> None:
    scenario = tmp_path / "nothing.yaml"
    scenario.write_text("apiVersion: v1\nkind: Node\nmetadata: {name: a}\nstatus: {allocatable: {cpu: 1}}\n")
    found = document_in(report(tmp_path, str(scenario)))
    assert (found["jobs"], found["spans"], found["end"]) == ([], [], 0.0)
    assert found["series"]["times"] == [0.0]


def test_nodes_say_in_which_domains_they_are(tmp_path: Path) -> None:
    """By HyperNodes, of racks and a block of two of them; or by labels that the configuration names."""
    found = domains_in(report(tmp_path, str(EXAMPLES / "topology.yaml"), "--until", "2s"))
    assert found["a3"] == {"rack": "a-2", "block": "a"}
    assert found["b1"] == {"rack": "b-1"}
    assert found["c1"] == {}
    config = tmp_path / "scheduler.yaml"
    config.write_text("{actions: allocate, topologyKeys: [example.com/rack], tiers: [{plugins: [{name: gang}]}]}")
    scenario = str(EXAMPLES / "workload-groups.yaml")
    found = domains_in(report(tmp_path, scenario, "--until", "2s", "--config", str(config)))
    assert found == {"a1": {"example.com/rack": "a"}, "b1": {"example.com/rack": "b"}}


def domains_in(page: str) -> dict[str, dict[str, str]]:
    return {node["name"]: node["domains"] for node in document_in(page)["nodes"]}
