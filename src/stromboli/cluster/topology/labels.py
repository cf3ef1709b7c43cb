"""Domains by labels of nodes: all nodes with one value of a label are a domain, without any further object.

Of several labels, from the widest to the narrowest, the narrowest makes tier 1. Equal values inside different wider
domains are different domains: each zone has its own rack 1. A node without one of the labels is in no domain of that
tier.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from .members import Members
from .tree import Tree

Path = tuple[str, ...]  # the values of labels from the widest on, "" for one that is missing


def by_labels(keys: Sequence[str], nodes: Members) -> Tree:
    """Domains have the name of their value; where others have the same value, with those of wider labels before it."""
    paths: list[Path] = [()] * len(nodes)
    domains: list[tuple[int, str, dict[Path, list[int]]]] = []
    for index, key in enumerate(keys):
        values = {row: value for value, rows in nodes.with_label(key).items() for row in rows}
        paths = [(*path, values.get(row, "")) for row, path in enumerate(paths)]
        found: dict[Path, list[int]] = {}
        for row in sorted(values):
            found.setdefault(paths[row], []).append(row)
        domains.append((len(keys) - index, key, found))
    names = _names([path for _, _, found in domains for path in found])
    return Tree(
        len(nodes),
        [(names[path], tier, key, rows) for tier, key, found in domains for path, rows in found.items()],
    )


def _names(paths: Sequence[Path]) -> dict[Path, str]:
    names = {path: path[-1] for path in paths}
    for name_of in (lambda path: "/".join(filter(None, path)), "/".join):
        taken = Counter(names.values())
        names = {path: name if taken[name] == 1 else name_of(path) for path, name in names.items()}
    return names
