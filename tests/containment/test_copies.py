"""Copies of a live cluster, on which `why`, `plan`, `diag` and the page run cycles: they go on after an error, too."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from console.situations import volcano_job
from console.test_on_a_cluster import Shell, on_a_cluster
from containment.contained_worlds import World, configuration, engine_of
from starvation.scenes import Document, gang, node, pod
from stromboli.cluster import Node, Task
from stromboli.console.whatif.counterfactuals import prospects
from stromboli.console.whatif.page_answers import PageAnswers
from stromboli.insight import State, explain, inspect
from stromboli.kube.page_server.outlook import look_ahead
from stromboli.scheduling.configuration import Arguments, Configuration
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.plugin import Plugin
from stromboli.scheduling.registry import Registry
from stromboli.scheduling.session import Session
from stromboli.simulation.virtual_time import START, wall_clock

PLUGIN = """
from stromboli.scheduling.plugin import Plugin

class Spiteful(Plugin):
    name = "spiteful"

    def __init__(self, arguments):
        pass

    def open(self, session):
        session.add_node_filter(self.check)

    def check(self, task, node):
        if "evil" in task.key:
            raise ValueError("boom")
"""


class Spiteful(Plugin):
    """Fails on every pod whose name begins with evil."""

    name = "spiteful"

    def __init__(self, arguments: Arguments) -> None:
        pass

    def open(self, session: Session) -> None:
        session.add_node_filter(self.check)

    def check(self, task: Task, node: Node) -> str | None:
        if task.name.startswith("evil"):
            raise ValueError("boom")
        return None


def with_spiteful() -> str:
    document = json.loads(configuration())
    document["tiers"][1]["plugins"].append({"name": "spiteful"})
    return json.dumps(document)


def before_any_cycle(documents: Sequence[Document]) -> tuple[State, Registry, Configuration]:
    registry = Registry()
    registry.register_plugin("spiteful", Spiteful)
    world = World("a copy", list(documents), with_spiteful())
    engine = engine_of(world, registry)
    engine._run_due_events(START)
    engine._run_controllers(START)
    state = State(list(engine.world.store.everything()), wall_clock(START))
    return state, registry, registry.load(world.configuration)


def test_others_have_the_prospects_that_they_had_without_a_job_in_error() -> None:
    others = [node("n1", 4), pod("first", 3, run=30), pod("second", 3, run=30)]
    found = []
    for documents in (others, [*others, pod("evil", 1)]):
        state, registry, rules = before_any_cycle(documents)
        picture = inspect(state, Scheduler(rules, registry)).picture
        second = explain(state, Scheduler(rules, registry), "default/second")
        assert second is not None
        found.append(prospects(state, picture, second, registry, rules))
    assert found[0].expected_start is not None
    assert found[1] == found[0]
    evil = explain(state, Scheduler(rules, registry), "default/evil")
    assert evil is not None
    assert evil.dominant == "InternalError"
    assert prospects(state, picture, evil, registry, rules).expected_start is None


@pytest.mark.parametrize("number", [1, 12, 50])  # more than one cycle goes on after, see contained_cycle
def test_the_page_looks_ahead_beside_jobs_in_error(number: int) -> None:
    evil = [pod(f"evil-{n}", 1) for n in range(number)]
    state, registry, rules = before_any_cycle([node("n1", 4), *evil, *gang("good", 2, 2)])
    outlook = look_ahead(state, Scheduler(rules, registry), PageAnswers())
    named = {group.partition("/")[2] for group in outlook.runs}
    assert named == {"good"}
    codes = [outlook.codes[group] for group in outlook.codes if "good" not in group]
    assert codes == ["InternalError"] * number


def test_a_copy_that_nobody_can_be_charged_with_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise it would be made again for ever."""
    state, registry, rules = before_any_cycle([node("n1", 4), pod("good", 1)])
    monkeypatch.setattr(Spiteful, "open", lambda self, session: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        inspect(state, Scheduler(rules, registry))


def install(folder: Path) -> None:
    (folder / "my_zone.py").write_text(PLUGIN, encoding="utf-8")
    info = folder / "my_zone-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-zone\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[stromboli.plugins]\nspiteful = my_zone:Spiteful\n", encoding="utf-8")


def test_every_question_about_a_live_cluster_has_an_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    site.mkdir()
    install(site)
    monkeypatch.syspath_prepend(str(site))
    rules = tmp_path / "scheduler.yaml"
    rules.write_text(with_spiteful(), encoding="utf-8")

    def submitted(shell: Shell, name: str, pods: int) -> None:
        path = tmp_path / f"{name}.yaml"
        path.write_text(json.dumps(volcano_job(name, pods, 2, run=600)), encoding="utf-8")
        assert shell.run("submit", "-f", str(path))[0] == 0

    def script(shell: Shell, wait: Callable[[str, str], None]) -> None:
        submitted(shell, "first", 2)
        wait("default/first", "Running")
        submitted(shell, "evil", 1)
        submitted(shell, "big", 4)
        whys: dict[str, Any] = {}
        while any(not whys.get(name, {}).get("reasons") for name in ("big", "evil")):  # groups are still to be created
            whys = {name: shell.data("why", name) for name in ("big", "evil")}
        assert whys["big"]["reasons"][0]["code"] == "InsufficientNode"
        assert "starts when default/first ends" in [one["sentence"] for one in whys["big"]["counterfactuals"]]
        assert whys["evil"]["reasons"][0]["code"] == "InternalError"
        diag = shell.data("diag", "--metrics-url", "http://127.0.0.1:1/metrics")
        assert {one["code"] for one in diag["reasons"]} == {"InsufficientNode", "InternalError"}
        assert shell.data("plan", "-f", str(tmp_path / "big.yaml"))

    on_a_cluster(tmp_path, capsys, script, config=rules)
