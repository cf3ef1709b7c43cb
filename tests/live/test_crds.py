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
from stromboli.api.rules import RULES, Door
from stromboli.kube.crds import definitions, files, mutation_files, policy_files
from stromboli.kube.crds.definitions import OPEN, RULES_KEY
from validation.cel_rules import cel_broken, filled_in, schemas

DEPLOY = Path(__file__).parents[2] / "deploy"
TEMPLATES = ("CronJob", "Job", "JobTemplate", "Reservation")
FILES = {**files(), **policy_files(), **mutation_files()}


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
    doors = {Door.DEFINITION: "rules", Door.POLICY: "policies"}
    assert {(rule.message, doors[rule.door]) for rule in RULES} == {
        (case.says, case.since) for case in CASES if case.since != "schema"
    }


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case.since != "schema"],
    ids=[NAMES[CASES.index(case)] for case in CASES if case.since != "schema"],
)
def test_cel_agrees(case: Case) -> None:
    assert [broken.rule.message for broken in cel_broken(case.good, case.was)] == []
    assert case.says in [broken.rule.message for broken in cel_broken(case.bad, case.was)]


@pytest.mark.parametrize(("server", "knows"), [((1, 24), False), ((1, 25), True), ((1, 36), True)])
def test_servers_get_the_rules_they_know(server: tuple[int, int], knows: bool) -> None:
    expressions = {rule["rule"] for definition in definitions(server).values() for rule in _rules(definition)}
    assert expressions == {rule.cel for rule in RULES if rule.door_on(server) is Door.DEFINITION}
    assert bool(expressions) == knows


def test_refusals_name_the_value() -> None:
    """The others say that something is there, or is not, or may not be that one value; or are about one task, and cost
    too much to name the value."""
    without = {rule.message for rule in RULES if not rule.on_update and (not rule.says or rule.is_costly)}
    assert without == {
        "dependsOn must not lead back to the task itself",
        "exitCode must not be 0, which is success",
        "metadata.annotations must not have both volcano.sh/jdb-min-available and volcano.sh/jdb-max-unavailable",
        "must have a resource or a percentage",
        "must have at least one value for the operators In and NotIn",
        "must have either a volumeClaimName or a volumeClaim",
        "must have either an event or an exitCode",
        "must have exactly one of exactMatch, regexMatch and labelMatch",
        "must have highestTierAllowed or highestTierName, not both",
        "must have no values for the operators Exists and DoesNotExist",
        "must say who may use the reservation: an object, a controller or a labelSelector",
        "policies must not have two actions for one event",
        "policies must not have two actions for one exitCode",
        'policies must not name other events beside "*", which means all of them',
        "queue must not be root: jobs go to the queues below it",
        "selector must have an exactMatch, as the member is a HyperNode",
        "spec.members must not have the HyperNode itself",
        "spec.parent must not be the queue itself",
    }


@pytest.mark.parametrize(("folder", "server"), [("overlays/before-1.25", (1, 24)), ("components/since-1.30", (1, 30))])
def test_patches_make_definitions_for_other_servers(folder: str, server: tuple[int, int]) -> None:
    """What is installed without one is what all servers from 1.25 on can take."""
    wanted = definitions(server)
    for name, definition in definitions((1, 25)).items():
        assert definition == definitions((1, 29))[name]
        patch = DEPLOY / folder / f"{name}.yaml"
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
    for case in CASES:
        if case.kind not in schemas():
            continue
        assert decode(filled_in(case.good, schemas()[case.kind])) == decode(case.good)


def test_patterns_are_understood_by_the_server() -> None:
    """It is written in Go, whose expressions know no look-around and no back-references."""
    patterns = [*_patterns(definitions())]
    assert patterns
    for pattern in patterns:
        assert pattern.startswith("^")
        assert not re.search(r"\(\?[=!<]|\\[1-9]", pattern)


def _patterns(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("pattern"), str):
            yield node["pattern"]
        node = [*node.values()]
    if isinstance(node, list):
        for part in node:
            yield from _patterns(part)


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
    described = dict(descriptions_in(schema))
    # The server describes the metadata of an object. In pod templates it is asked about pods.
    assert [path for path, text in described.items() if not text.endswith(".") and path != "metadata"] == []
    for path, text in described.items():
        if ".template." in path:
            assert text == f"See kubectl explain pod.{path.partition('.template.')[2]}."


def descriptions_in(schema: Any, path: str = "") -> Iterator[tuple[str, str]]:
    for name, part in schema.get("properties", {}).items():
        yield f"{path}{name}", part.get("description", "")
        yield from descriptions_in(part, f"{path}{name}.")
    for inner in ("items", "additionalProperties"):
        if isinstance(schema.get(inner), dict):
            yield from descriptions_in(schema[inner], path)
