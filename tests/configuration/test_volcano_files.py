"""Configurations of the shapes that are in Volcano's repository load, or are refused with the line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from builders import START, cluster, group, node, pods
from stromboli.scheduling.configuration import ConfigurationError
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import Bind
from stromboli.scheduling.registry import Registry

FILES: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("volcano_files.yaml").read_text(encoding="utf-8"))


def registry() -> Registry:
    return Registry(installed_plugins=(), installed_actions=())


@pytest.mark.parametrize("file", [one for one in FILES if "refuses" not in one], ids=lambda one: one["name"])
def test_a_file_loads_and_names_what_has_no_effect(file: dict[str, Any]) -> None:
    configuration = registry().load(file["text"], where="s.conf")
    expected = file.get("warns", [])
    assert len(configuration.warnings) == len(expected), configuration.warnings
    for warning, named in zip(configuration.warnings, expected, strict=True):
        assert warning.startswith("s.conf, line ")
        assert named in warning
    if "runs" in file:
        assert [action.name for action in configuration.actions] == file["runs"].split()


@pytest.mark.parametrize("file", [one for one in FILES if "refuses" in one], ids=lambda one: one["name"])
def test_a_file_is_refused_with_the_line(file: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        registry().load(file["text"], where="s.conf")
    assert str(caught.value).startswith("s.conf, " + file["refuses"])


# Nothing of the files keeps a gang from a cluster with room for it, but for groups of nodes: this queue names none, and
# the nodes are in none, which `strict: false` allows.
@pytest.mark.parametrize("file", [one for one in FILES if "refuses" not in one], ids=lambda one: one["name"])
def test_a_gang_starts_with_each_of_them(file: dict[str, Any]) -> None:
    known = cluster(
        node("n1", cpu=8, memory="16Gi"), node("n2", cpu=8, memory="16Gi"),
        group("g", min_member=3, min_resources={"cpu": 3}, phase="Pending"),
        pods("p", 3, group="g", cpu=1, memory="1Gi"),
    )  # fmt: skip
    found = registry()
    cycle = Scheduler(found.load(file["text"]), found).run(known, START + 10)
    assert sum(isinstance(decision, Bind) for decision in cycle.decisions) == 3
