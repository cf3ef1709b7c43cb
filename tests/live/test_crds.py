"""The resource definitions: generated files are up to date, and schemas refuse what the rules refuse."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from live.kustomize import change
from live.schema_cases import CASES, NAMES, Case
from stromboli.api import ApiError, decode, merge_patch, validate_update
from stromboli.kube.crds import definitions, files
from stromboli.kube.crds.definitions import OPEN, RULES_KEY

DEPLOY = Path(__file__).parents[2] / "deploy"
TEMPLATES = ("Job", "Reservation")
FILES = files()


@pytest.mark.parametrize("path", FILES)
def test_generated_files_match_the_types(path: str) -> None:
    assert (DEPLOY / path).read_text(encoding="utf-8") == FILES[path], (
        "the types have changed: run .venv/bin/python -m stromboli.kube.crds deploy"
    )


def test_there_are_no_other_files() -> None:
    generated = [path for path in DEPLOY.rglob("*.yaml") if "stromboli.kube.crds" in path.read_text(encoding="utf-8")]
    assert {path.relative_to(DEPLOY).as_posix() for path in generated} == set(FILES)


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_the_python_rules_agree(case: Case) -> None:
    _accept(case, case.good)
    with pytest.raises(ApiError):
        _accept(case, case.bad)


def _accept(case: Case, document: dict[str, Any]) -> None:
    obj = decode(document)
    if case.was is not None:
        validate_update(decode(case.was), obj)


def test_every_rule_has_its_case() -> None:
    ruled = {rule["message"] for definition in definitions().values() for rule in _rules(definition)}
    tried = {case.says for case in CASES if case.since != "schema"}
    assert ruled == tried


@pytest.mark.parametrize(
    ("server", "known"), [((1, 24), set()), ((1, 33), {"rules"}), ((1, 34), {"rules", "all rules"})]
)
def test_servers_get_the_rules_they_know(server: tuple[int, int], known: set[str]) -> None:
    messages = {rule["message"] for definition in definitions(server).values() for rule in _rules(definition)}
    assert messages == {case.says for case in CASES if case.since in known}


@pytest.mark.parametrize(("overlay", "server"), [("before-1.25", (1, 24)), ("since-1.34", (1, 34))])
def test_overlays_make_definitions_for_other_servers(overlay: str, server: tuple[int, int]) -> None:
    """What is installed without one is what all servers from 1.25 on can take."""
    wanted = definitions(server)
    for name, definition in definitions((1, 25)).items():
        assert definition == definitions((1, 33))[name]
        patch = DEPLOY / "overlays" / overlay / f"{name}.yaml"
        for step in yaml.safe_load(patch.read_text(encoding="utf-8")) if patch.exists() else ():
            change(definition, step)
        assert definition == wanted[name]


def _rules(node: Any) -> Iterator[dict[str, str]]:
    if isinstance(node, dict):
        yield from node.get(RULES_KEY, ())
        for part in node.values():
            yield from _rules(part)
    elif isinstance(node, list):
        for part in node:
            yield from _rules(part)


def test_templates_keep_unknown_fields() -> None:
    for definition in definitions().values():
        kind = definition["spec"]["names"]["kind"]
        templates = list(_templates(definition))
        assert bool(templates) == (kind in TEMPLATES)
        for template in templates:
            for node in _objects(template):
                assert node.get(OPEN) or "additionalProperties" in node


def _templates(node: Any) -> Iterator[Any]:
    if isinstance(node, dict):
        for name, part in node.items():
            if name == "template":
                yield part
            else:
                yield from _templates(part)
    elif isinstance(node, list):
        for part in node:
            yield from _templates(part)


def _objects(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        if node.get("type") == "object":
            yield node
        for part in node.values():
            yield from _objects(part)


def test_defaults_are_those_of_the_python_side() -> None:
    """What a server fills in must mean what it would mean if nobody had filled it in."""
    schemas = {
        definition["spec"]["names"]["kind"]: definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        for definition in definitions().values()
    }
    for case in CASES:
        assert decode(_filled_in(case.good, schemas[case.kind])) == decode(case.good)


def _filled_in(value: Any, schema: dict[str, Any]) -> Any:
    if isinstance(value, list):
        return [_filled_in(item, schema["items"]) for item in value]
    if not isinstance(value, dict):
        return value
    properties = schema.get("properties", {})
    given = {name: part["default"] for name, part in properties.items() if "default" in part} | value
    return {name: _filled_in(part, properties[name]) if name in properties else part for name, part in given.items()}


def test_patterns_are_understood_by_the_server() -> None:
    """It is written in Go, whose expressions know no look-around and no back-references."""
    patterns = re.findall(r"pattern: (.+)", "".join(FILES.values()))
    assert patterns
    for pattern in patterns:
        assert pattern.startswith("^")
        assert not re.search(r"\(\?[=!<]|\\[1-9]", pattern)


def test_a_misspelt_field_would_be_noticed() -> None:
    """Only what stands below a template is open; our own kinds name what they have."""
    job = definitions()["jobs.batch.volcano.sh"]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert OPEN not in job["properties"]["spec"]
    assert OPEN not in job["properties"]["spec"]["properties"]["tasks"]["items"]


def test_definitions_are_independent_copies() -> None:
    one = definitions()
    merge_patch(one["queues.scheduling.volcano.sh"], {"spec": None})
    one["queues.scheduling.volcano.sh"]["spec"].clear()
    assert definitions()["queues.scheduling.volcano.sh"]["spec"]


@pytest.mark.parametrize("name", definitions())
def test_kubectl_explain_says_what_each_field_means(name: str) -> None:
    schema = definitions()[name]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    of_all = ("apiVersion", "kind", "metadata")
    own = {field: part for field, part in schema["properties"].items() if field not in of_all}
    for part in ("spec", "status"):
        own |= {f"{part}.{field}": what for field, what in own.get(part, {}).get("properties", {}).items()}
    # What the next leader has to know about pods is not for people.
    inner = {"status.controlledResources", "status.livePods", "status.lostPods", "status.restartingPods"}
    assert [field for field, what in own.items() if not what.get("description", "").endswith(".")] == sorted(
        inner & own.keys()
    )
