"""Short expressions that used to take minutes: every one of them ends, and says that it takes too many steps.

None of these needs long when it is not bounded, so that a test fails instead of going on for ever.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from embedded.api import MERGE, Answer, Api, EmbeddedTransport, config_map
from stromboli.embedded.admission import evaluation
from stromboli.embedded.cel import Budget, CelError, OverBudget, compiled
from stromboli.embedded.cel.values import KeyedList, SetList
from stromboli.embedded.schema import rules

MAPS = "/api/v1/namespaces/default/configmaps"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
POLICIES = "/apis/admissionregistration.k8s.io/v1"
TOYS = "/apis/t.example/v1/toys"

LONG = "a" * 1_000_000
SAME = "".join(["a"] * 1_000_000)  # an object of its own: to find it equal, all of it is compared
MANY = dict.fromkeys(map(str, range(50_000)), 0)
AB = "".join(Random(1).choices("ab", k=20_000))


def tens(depth: int, leaf: str, result: str) -> str:
    """A value with 10 ** depth leaves, of which each list is there once: `x` and the depth in the result."""
    text = result
    for level in range(depth, 0, -1):
        text = f"cel.bind(x{level}, [{', '.join([f'x{level - 1}'] * 10)}], {text})"
    return f"cel.bind(x0, {leaf}, {text})"


def keyed(key: str) -> KeyedList:
    made = KeyedList([{"k": key}])
    made.keys = ("k",)
    return made


BOMBS: dict[str, tuple[str, dict[str, Any]]] = {
    "equal texts": ("lists.range(1000).exists(i, a != b)", {"a": LONG, "b": SAME}),
    "equal bytes": ("lists.range(1000).exists(i, a != b)", {"a": LONG.encode(), "b": SAME.encode()}),
    "texts in order": ("lists.range(1000).exists(i, a < b)", {"a": LONG, "b": SAME}),
    "the least text": ("lists.range(1000).exists(i, [a, b].min() == 'x')", {"a": LONG, "b": SAME}),
    "long keys": ("lists.range(1000).exists(i, !(b in {a: 1}))", {"a": LONG, "b": SAME}),
    "items of long keys": ("lists.range(1000).exists(i, a[b] == 2)", {"a": {LONG: 1}, "b": SAME}),
    "keyed lists": ("lists.range(200).exists(i, a != b)", {"a": keyed(LONG), "b": keyed(SAME)}),
    "sets": ("a == b", {"a": SetList(range(2000)), "b": SetList(reversed(range(2000)))}),
    "joined sets": ("(a + b).size() > 0", {"a": SetList(range(2000)), "b": SetList(range(5000, 7000))}),
    "durations": ("lists.range(10).exists(i, duration(a) == duration('1s'))", {"a": "1ns" * 50_000}),
    "times": ("lists.range(20).exists(i, timestamp(a) == timestamp(1))", {"a": f"2020-01-01T00:00:00.{'1' * 90_000}Z"}),
    "zones": ("lists.range(30000).exists(i, timestamp(0).getHours('Europe/Rome') == 5)", {}),
    "matches": ("lists.range(4).exists(i, (a + string(i)).matches('^(a|b)*a(a|b){14}c$'))", {"a": AB}),
    "patterns": ("lists.range(99).exists(i, 'x'.matches(string(i) + '(a|b|c|d){600}'))", {}),
    "bad patterns": ("lists.range(99).exists(i, 'x'.matches(string(i) + '(a{1000}){9}') || i < 0) || true", {}),
    "clauses": ("lists.range(3).exists(i, a.format(b) == '')", {"a": "%s" * 400_000, "b": ["x"] * 400_000}),
    "texts in lists": (tens(3, "a", "'%s'.format([x3]) == ''"), {"a": "b" * 20_000}),
    "maps of maps": ("lists.range(9).all(i, [1].transformMapEntry(k, v, a).size() > 0)", {"a": MANY}),
    "quantities": ("lists.range(20000).exists(i, quantity(a).isLessThan(quantity('1')))", {"a": "1" * 900}),
}  # fmt: skip


@pytest.mark.parametrize("name", BOMBS)
def test_what_takes_long_takes_steps(name: str) -> None:
    text, variables = BOMBS[name]
    with pytest.raises(OverBudget):
        compiled(text, tuple(variables)).value(variables, Budget(300_000))


def test_a_number_of_many_digits_is_refused_in_one_pass() -> None:
    """It was tried from each digit again: 100,000 digits took minutes, these take seconds."""
    with pytest.raises(CelError):
        compiled("double(a) == 1.0", ("a",)).value({"a": "1" * 20_000 + "x"}, Budget(30_000))


def test_each_evaluation_takes_steps() -> None:
    budget = Budget(20 * 5)
    program = compiled("1 + 1 == 2", ())
    assert [program.value({}, budget) for _ in range(20)] == [True] * 20
    with pytest.raises(OverBudget):
        program.value({}, budget)


# -- on the server -----------------------------------------------------------------------------------------------------


def define(api: Api, schema: dict[str, Any]) -> None:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    spec = {
        "group": "t.example", "scope": "Cluster", "names": {"plural": "toys", "kind": "Toy"}, "versions": [version],
    }  # fmt: skip
    api.create(DEFINITIONS, {"metadata": {"name": "toys.t.example"}, "spec": spec})


def toy(**parts: Any) -> dict[str, Any]:
    return {"apiVersion": "t.example/v1", "kind": "Toy", "metadata": {"name": "x"}, **parts}


def install(api: Api, kind: str, resource: str, **spec: Any) -> None:
    rule = {"apiGroups": ["*"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": [resource]}
    spec = {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": [rule]}, **spec}
    api.create(f"{POLICIES}/{kind}admissionpolicies", {"metadata": {"name": "p"}, "spec": spec})
    bound: dict[str, Any] = {"policyName": "p"} | ({"validationActions": ["Deny"]} if kind == "validating" else {})
    api.create(f"{POLICIES}/{kind}admissionpolicybindings", {"metadata": {"name": "p"}, "spec": bound})


def patching(expression: str) -> dict[str, Any]:
    return {
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
    }


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Api:
    """With a tenth of the steps that requests have, so that they are soon used up."""
    monkeypatch.setattr(rules, "MOST_STEPS", rules.MOST_STEPS // 10)
    monkeypatch.setattr(evaluation, "_MOST_REQUEST_STEPS", evaluation._MOST_REQUEST_STEPS // 10)
    return Api(EmbeddedTransport())


def relabelled(api: Api, path: str, times: int) -> Answer:
    """The first answer that is a refusal, else the last."""
    for number in range(times):
        answer = api.call("PATCH", path, {"metadata": {"labels": {"n": str(number)}}}, kind=MERGE)
        if answer.status != 200:
            break
    return answer


def test_of_a_million_mistakes_the_first_are_named(api: Api) -> None:
    define(api, {"type": "object", "properties": {"n": {"type": "array", "items": {"type": "string"}}}})
    answer = api.call("POST", TOYS, toy(n=[1] * 30_000))
    assert (answer.status, len(answer.body["details"]["causes"])) == (422, 100)


def test_rules_of_items_share_the_steps_of_a_request(api: Api) -> None:
    items = {
        "type": "integer",
        "x-kubernetes-validations": [{"rule": f"self > {least - 50}"} for least in range(50)],
    }
    define(api, {"type": "object", "properties": {"n": {"type": "array", "items": items}}})
    answer = api.call("POST", TOYS, toy(n=[1] * 5_000))
    assert answer.status == 422
    assert "takes more steps than allowed" in answer.body["message"]


def test_rules_about_changes_that_have_nothing_to_judge_take_steps(api: Api) -> None:
    """Lists without keys have no items before, but an object may have as many items as fit into it."""
    about_changes = [{"rule": f"self > oldSelf - {number}"} for number in range(200)]
    by_key = {"type": "object", "additionalProperties": {"type": "integer", "x-kubernetes-validations": about_changes}}
    define(api, {"type": "object", "properties": {"n": by_key}})
    answer = api.call("POST", TOYS, toy(n={str(number): 1 for number in range(3_000)}))
    assert "takes more steps than allowed" in answer.body["message"]


def test_what_a_rule_did_not_refuse_before_is_compared_with_steps(api: Api) -> None:
    listed: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "array", "items": {"type": "integer"}}}}
    define(api, listed)
    api.create(TOYS, toy(n=list(range(50_000))))
    definition = api.get(f"{DEFINITIONS}/toys.t.example")
    added = [{"rule": f"self.n.size() < {most}"} for most in range(1, 40)]
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = listed | {"x-kubernetes-validations": added}
    api.replace(f"{DEFINITIONS}/toys.t.example", definition)
    assert "takes more steps than allowed" in relabelled(api, f"{TOYS}/x", 1).body["message"]


def test_a_variable_that_needs_itself_has_no_value(api: Api) -> None:
    """Each failure was caught by `||`, which tried once more: 2 ** 300 times."""
    variables = [{"name": "y", "expression": "cel.bind(v, variables, v.y || v.y)"}]
    install(api, "validating", "configmaps", variables=variables, validations=[{"expression": "variables.y"}])
    answer = api.call("POST", MAPS, config_map("one"))
    assert answer.status == 422
    assert "no such key: y" in answer.body["message"]


@pytest.mark.parametrize("form", ["JSONPatch", "ApplyConfiguration"])
def test_a_mutation_cannot_multiply(api: Api, form: str) -> None:
    """A short expression for a million numbers, or for as many as one likes."""
    define(
        api, {"type": "object", "properties": {"n": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}
    )
    if form == "JSONPatch":
        spec = patching(tens(6, "1", "[JSONPatch{op: 'add', path: '/n', value: {'a': x6}}]"))
    else:
        made = tens(6, "1", "Object{n: Object.n{a: x6}}")
        mutation = {"patchType": form, "applyConfiguration": {"expression": made}}
        spec = {"reinvocationPolicy": "Never", "mutations": [mutation]}
    install(api, "mutating", "toys", **spec)
    answer = api.call("POST", TOYS, toy(n={}))
    assert answer.status == 403
    assert "is too large" in answer.body["message"]


def test_what_a_mutation_adds_each_time_stays_readable(api: Api) -> None:
    define(
        api, {"type": "object", "properties": {"n": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}
    )
    install(api, "mutating", "toys", **patching("[JSONPatch{op: 'add', path: '/n', value: {'a': object.n}}]"))
    api.create(TOYS, toy(n={}))
    answer = relabelled(api, f"{TOYS}/x", 210)
    assert answer.status == 400
    assert "nested more than 200 levels deep" in answer.body["message"]


def test_what_a_mutation_doubles_each_time_stays_small() -> None:
    api = Api(EmbeddedTransport())
    twice = "[JSONPatch{op: 'add', path: '/data/x', value: object.data.x + object.data.x}]"
    install(api, "mutating", "configmaps", **patching(twice))
    api.create(MAPS, config_map("one", x="a"))
    assert relabelled(api, f"{MAPS}/one", 30).status == 413


@pytest.mark.parametrize("field", ["name", "namespace"])
def test_a_mutation_cannot_put_an_object_elsewhere(api: Api, field: str) -> None:
    elsewhere = f"[JSONPatch{{op: 'add', path: '/metadata/{field}', value: 'other'}}]"
    install(api, "mutating", "configmaps", **patching(elsewhere))
    answer = api.call("POST", MAPS, config_map("one"))
    assert (answer.status, answer.body["message"]) == (400, f"a policy must not change the {field} of an object")


def test_a_mutation_cannot_write_what_is_the_servers(api: Api) -> None:
    install(api, "mutating", "configmaps", **patching(
        "[JSONPatch{op: 'add', path: '/metadata/uid', value: 'forged'},"
        " JSONPatch{op: 'add', path: '/metadata/deletionTimestamp', value: '2020-01-01T00:00:00Z'}]"
    ))  # fmt: skip
    created = api.create(MAPS, config_map("one"))["metadata"]
    changed = api.patch(f"{MAPS}/one", {"data": {"a": "b"}})["metadata"]
    assert created["uid"] == changed["uid"] != "forged"
    assert "deletionTimestamp" not in created | changed


def test_too_many_expressions_are_refused(api: Api) -> None:
    """Each may have 100,000 characters, and to compile thirty of them takes ten seconds."""
    text = f"[{'1, ' * 30_000}1].size() > 0"
    texts = [f"{text} || {number} == 1" for number in range(3)]
    with pytest.raises(AssertionError, match="may have 200000 here"):
        install(api, "validating", "pods", validations=[{"expression": one} for one in texts])
    with pytest.raises(AssertionError, match="may have 200000 here"):
        define(api, {"type": "object", "x-kubernetes-validations": [{"rule": one} for one in texts]})
