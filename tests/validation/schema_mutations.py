"""Objects that are wrong anywhere: a field that the schema knows, whether the object has it or not, gets another value.

`mutations` changes what is there, to values that mean something to a rule. Here values come from the schema: its limits
and what is just beyond, other types, odd text; items come twice or go, names of fields are misspelt. The same seed
gives the same objects.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

from validation.cel_rules import schemas
from validation.mutations import BASES

Document = dict[str, Any]

OPEN = "x-kubernetes-preserve-unknown-fields"
_NUMBERS = (-(2**31) - 1, -1, 0, 1, 2, 3, 4, 63, 64, 256, 65536, 2**31 - 1, 2**31, 2**53)
_TEXTS = (
    "", " ", "a", "b", "A", "a\n", "é", "a b", "-a", "a-", "a..b", "a/b", "/", "a" * 63, "a" * 64, "0", "1", "-1", "+1",
    "1.5", "1e3", ".5", "5.", "1k", "1Ki", "100m", "1 Gi", "NaN", "9" * 30, "1" * 65, "0%", "99%", "100%", "1m30s",
    "1d", "root", "default", "root/a", "root/a/b", "a/b", "1/2/3", "1/-1/1", "true", "*", "PodFailed", "podfailed",
    "Unknown", "TaskCompleted", "RestartJob", "SyncJob", "In", "Exists", "Gt", "hard", "fifo", "Guaranteed",
    "any", "all", "Node", "HyperNode", "Queue",
    "system-node-critical", "q", "n1", "^n[0-9]+$", "60 * * * *", "@daily", "@reboot", "UTC",
    "svc", "ssh", "mpi", "ray", "default0", "it's", 'say "x"', "a\\b", "a\x00",
)  # fmt: skip
_KEYS = ("cpu", "memory", "nvidia.com/gpu", "a", "A", "-", "a/b/c", "a b", "x/", "svc", "mpi", "ray", "a" * 64)
_OTHERS: tuple[Any, ...] = (None, True, 0, 1, -1, 1.0, 1.5, "", "1", [], {}, [1], ["a"], {"a": "b"})


class Place(NamedTuple):
    owner: Any
    key: Any
    schema: Document


def changed_anywhere(seed: int, count: int) -> Iterator[tuple[Document, Document]]:
    """Good objects, each with one that is changed in one place."""
    random, goods = Random(seed), [one for one in BASES if one["kind"] in schemas()]
    for _ in range(count):
        good = random.choice(goods)
        changed = copy.deepcopy(good)
        places = list(_places(changed, schemas()[good["kind"]]))
        # Pods have many fields, and Kubernetes judges them.
        weights = [0.1 if OPEN in place.schema else 1.0 for place in places]
        _change(random.choices(places, weights)[0], random)
        yield good, changed


def _places(value: Any, schema: Document, path: tuple[Any, ...] = ()) -> Iterator[Place]:
    if isinstance(value, dict):
        for name, part in schema.get("properties", {}).items():
            if path or name not in ("apiVersion", "kind", "metadata", "status"):
                yield Place(value, name, part)
                yield from _places(value.get(name), part, (*path, name))
        each = schema.get("additionalProperties")
        for name in value if isinstance(each, dict) else ():
            yield Place(value, name, each)
            yield from _places(value[name], each, (*path, name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield Place(value, index, schema.get("items", {}))
            yield from _places(item, schema.get("items", {}), (*path, index))


def _change(place: Place, random: Random) -> None:
    owner, key, schema = place
    is_there = isinstance(owner, list) or key in owner
    old, roll = owner[key] if is_there else None, random.random()
    if not is_there or roll < 0.5:
        owner[key] = _value(schema, random)
    elif roll < 0.65:
        del owner[key]
    elif isinstance(owner, list):
        owner.append(copy.deepcopy(old))
    elif isinstance(old, str) and roll < 0.8:
        owner[key] = random.choice((f"{old}\n", old.upper(), f" {old}", old * 2, old[:-1], f"{old}.", f"-{old}"))
    elif isinstance(old, dict) and roll < 0.9:
        old[random.choice(_KEYS)] = random.choice(_OTHERS)
    elif "additionalProperties" not in schema:
        owner[f"{key}s"] = owner.pop(key)


def _value(schema: Document, random: Random, depth: int = 0) -> Any:
    if random.random() < (0.2 if depth == 0 else 0.04):
        return copy.deepcopy(random.choice(_OTHERS))
    if "enum" in schema and random.random() < 0.6:
        return random.choice(schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return random.choice((random.choice(_NUMBERS), random.choice(_TEXTS), "2Gi", "500m"))
    match schema.get("type"):
        case "integer":
            return random.choice((*_NUMBERS, schema.get("minimum", 0) - 1, schema.get("maximum", 0) + 1))
        case "number":
            return random.choice((0, 1, 0.5, -0.5, 1.0001, 2))
        case "boolean":
            return random.random() < 0.5
        case "string":
            longest = schema.get("maxLength", 63)
            return random.choice((*_TEXTS, "a" * longest, "a" * (longest + 1)))
        case "array":
            return [_value(schema.get("items", {}), random, depth + 1) for _ in range(random.choice((0, 1, 1, 2, 3)))]
    made = {
        name: _value(part, random, depth + 1)
        for name, part in schema.get("properties", {}).items()
        if name in schema.get("required", ()) or random.random() < 0.35
    }
    each = schema.get("additionalProperties")
    return made | ({random.choice(_KEYS): _value(each, random, depth + 1)} if isinstance(each, dict) else {})
