"""Errors in plugins of other distributions name the plugin and its distribution, wherever they are told."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from containment.contained_worlds import World, configuration, engine_of, play
from starvation.scenes import node, pod
from stromboli.console.main import run
from stromboli.containment import ContainedError, ObjectRef, plugin_failure
from stromboli.kube.runtime import ErrorReporter, Log
from stromboli.scheduling.explanation.next_steps import next_step
from stromboli.scheduling.registry import Registry

RACK = '''
import numpy as np
from stromboli.scheduling.configuration import Arguments
from stromboli.scheduling.plugin import Action, Plugin

def helper(task):
    raise ValueError("boom")

class Other(Plugin):
    name = "other"

class Rack(Plugin):
    name = "annotated_rack"

    def __init__(self, arguments):
        self.fails = arguments.text("fails", "no")
        if self.fails == "constructor":
            arguments.nonsense("weight")

    def open(self, session):
        if self.fails == "open":
            raise ValueError("boom")
        if self.fails == "method":
            session.add_node_filter(self.check)
        if self.fails == "lambda":
            session.add_node_filter(lambda task, node: helper(task) if "odd" in task.key else None)
        if self.fails == "answer":
            session.add_node_filter(self.answer)
        if self.fails == "depends on a text":
            session.add_node_filter(self.nothing, depends_on="labels")
        if self.fails == "depends on a class":
            session.add_node_score(self.nothing, depends_on=type(self))
        if self.fails == "scope is a text":
            session.add_node_filter(self.nothing, scope="static")
        if self.fails == "list":
            session.add_node_filter(self.nothing, depends_on=self.owners)
        if self.fails in ANSWERS:
            session.add_filter(self.prepare)

    def nothing(self, task, node):
        return None

    def owners(self, task):
        return [task.name] if "odd" in task.key else ""

    def prepare(self, task):
        return ANSWERS[self.fails] if "odd" in task.key else None

    def check(self, task, node):
        if "odd" in task.key:
            raise ValueError("boom")

    def answer(self, task, node):
        return False if "odd" in task.key else None

ANSWERS = {
    "mask": lambda rows: np.ones(len(rows), dtype=np.bool_),
    "no function": np.zeros(1, dtype=np.int32),
    "one for all": lambda rows: 0,
    "unknown": lambda rows: np.full(len(rows), 99),
    "below": lambda rows: np.full(len(rows), -1),
    "numbers of reasons": lambda rows: np.zeros(len(rows), dtype=np.int64),
}
'''  # fmt: skip
LINES = RACK.splitlines()
TITLE = 'plugin "annotated_rack" of distribution "my-zone"'


def line(text: str) -> int:
    """The last one with this text."""
    return max(number for number, one in enumerate(LINES, 1) if text in one)


@pytest.fixture
def rack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Two plugins of one distribution, in one module."""
    (tmp_path / "my_rack.py").write_text(RACK, encoding="utf-8")
    info = tmp_path / "my_zone-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-zone\nVersion: 1.0\n", encoding="utf-8")
    entries = "[stromboli.plugins]\nannotated_rack = my_rack:Rack\nother = my_rack:Other\n"
    (info / "entry_points.txt").write_text(entries, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_rack", raising=False)
    return "my_rack.py"


def rules(fails: str) -> str:
    document = json.loads(configuration())
    document["tiers"][1]["plugins"] += [
        {"name": "other"}, {"name": "annotated_rack", "arguments": {"fails": fails}}
    ]  # fmt: skip
    return json.dumps(document)


DOCUMENTS = [node("n1", 4), pod("odd", 1), pod("good", 1)]


@pytest.mark.parametrize(
    ("fails", "said"),
    [
        ("constructor", f"failed at my_rack.py:{line('nonsense')}: AttributeError: "),
        ("open", f"failed at my_rack.py:{line('def open') + 2}: ValueError: boom"),
        ("method", f"failed at my_rack.py:{line('raise ValueError')}: ValueError: boom"),
        ("lambda", f"failed at my_rack.py:{line('def helper') + 1}: ValueError: boom"),
        ("answer", f"failed at my_rack.py:{line('def answer')}: WrongAnswer: "),
    ],
)
def test_the_command_line_names_the_plugin(
    rack: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], fails: str, said: str
) -> None:
    scenario, config = tmp_path / "scenario.yaml", tmp_path / "scheduler.yaml"
    scenario.write_text("\n---\n".join(json.dumps(one) for one in DOCUMENTS), encoding="utf-8")
    config.write_text(rules(fails), encoding="utf-8")
    assert run(["simulate", str(scenario), "--config", str(config)]) != 0
    told = capsys.readouterr().err
    assert f"{TITLE} {said}" in told
    assert "bug in stromboli" not in told


@pytest.mark.parametrize("fails", ["method", "lambda", "answer"])
def test_the_pod_and_the_next_step_name_the_author(rack: str, fails: str) -> None:
    played = play(World("a rack", DOCUMENTS, rules(fails), until=5), registry=Registry())
    assert played.pods["good"]["node"] == "n1"
    message = played.pods["odd"]["message"]
    assert message.startswith(f"An error in {TITLE} (")
    assert "author of the plugin" in next_step("InternalError", message)
    assert all(error.of_plugin for error in played.errors)


def test_an_answer_that_is_no_sentence_is_no_reason(rack: str) -> None:
    played = play(World("a rack", DOCUMENTS, rules("answer"), until=5), registry=Registry())
    assert played.errors[0].text == 'plugin "annotated_rack": a node filter returns None or a sentence, not False'


@pytest.mark.parametrize(
    ("fails", "problem"),
    [
        ("list", "the function given as depends_on returned ['odd'], which cannot be told apart from other values"),
        ("mask", "here it returned an array of bool with the shape (1,) for 1 rows"),
        ("no function", "a filter returns a function of rows or None, not an array of int32"),
        ("one for all", "here it returned an array of int64 with the shape () for 1 rows"),
        ("unknown", "a number that session.node_reason gave for no reason"),
        ("below", "a number that session.node_reason gave for no reason"),
    ],
)
def test_an_answer_that_would_do_harm_later_is_refused_where_it_is_given(rack: str, fails: str, problem: str) -> None:
    """The pod is put aside with the name of the plugin, and the other pod starts."""
    played = play(World("a rack", DOCUMENTS, rules(fails), until=5), registry=Registry())
    assert played.pods["good"]["node"] == "n1"
    assert played.pods["odd"]["message"].startswith(f"An error in {TITLE} (")
    assert all(error.of_plugin for error in played.errors)
    assert played.errors[0].text.startswith('plugin "annotated_rack": ')
    assert problem in played.errors[0].text


def test_numbers_of_reasons_of_any_width_are_answers(rack: str) -> None:
    played = play(World("a rack", DOCUMENTS, rules("numbers of reasons"), until=5), registry=Registry())
    assert not played.errors
    assert {facts["node"] for facts in played.pods.values()} == {"n1"}


@pytest.mark.parametrize(
    ("fails", "told"),
    [
        ("depends on a text", "or a function of the task; it cannot be 'labels'"),
        ("depends on a class", "or a function of the task; it cannot be <class 'my_rack.Rack'>"),
        ("scope is a text", "scope is one of Scope.STATIC, Scope.NODE, Scope.CLUSTER; it cannot be 'static'"),
    ],
)
def test_what_an_answer_depends_on_is_refused_where_it_is_said(rack: str, fails: str, told: str) -> None:
    with pytest.raises(TypeError) as refused:
        engine_of(World("a rack", DOCUMENTS, rules(fails), until=5), Registry()).run()
    failure = plugin_failure(refused.value)
    assert failure is not None
    assert failure.plugin == TITLE
    assert told in failure.error


def test_the_log_says_whom_to_tell(caplog: pytest.LogCaptureFixture) -> None:
    subject = ObjectRef("PodGroup", "default/odd")
    for of_plugin, whom in ((True, "it to the author of the plugin"), (False, "this bug")):
        caplog.clear()
        error = ContainedError(subject, f"E{of_plugin}", "boom", "a.py:1", "", of_plugin=of_plugin)
        ErrorReporter("scheduler", None).report(error, seconds=1.0)
        assert f"Please report {whom}" in caplog.text


def test_a_cycle_that_fails_is_logged_with_the_plugin(rack: str, caplog: pytest.LogCaptureFixture) -> None:
    engine = engine_of(World("a rack", DOCUMENTS, rules("open"), until=5), Registry())
    try:
        engine.run()
    except ValueError:
        Log("scheduler").exception("a cycle failed")
    fields = caplog.records[0].fields  # type: ignore[attr-defined]
    assert fields == {"failure": f"{TITLE} failed at my_rack.py:{line('def open') + 2}: ValueError: boom"}


def test_errors_of_stromboli_stay_its_own(rack: str) -> None:
    engine = engine_of(World("a rack", DOCUMENTS, rules("no"), until=5), Registry())
    engine.run()
    with pytest.raises(KeyError) as found:
        engine.cluster.ledger.table.by_name["none"]
    assert plugin_failure(found.value) is None
