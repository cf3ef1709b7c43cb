"""The nodes that the members of HyperNodes select: by name, by a regular expression, or by labels.

There may be hundreds of HyperNodes and thousands of nodes. What an expression matches is remembered by name, so when a
node comes, each expression is asked about that one only. Selectors of labels begin at those that a node must have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from stromboli.api import LabelSelector
from stromboli.api.kinds.topology import MemberSelector
from stromboli.api.selectors import matches_labels
from stromboli.api.validation.patterns import Pattern, TooCostly, quick_test

Labels = Mapping[str, str]


class PatternMatches:
    """Which names each expression matches; kept while nodes come and go."""

    def __init__(self) -> None:
        self._names: frozenset[str] = frozenset()
        self._matches: dict[str, set[str]] = {}
        self._asked: set[str] = set()  # since the names changed

    def show(self, names: frozenset[str]) -> None:
        """These are the names that there are now."""
        if names == self._names:
            return
        new, gone = names - self._names, self._names - names
        for text in [text for text in self._matches if text not in self._asked]:
            del self._matches[text]  # no HyperNode has it any more
        for text, known in self._matches.items():
            known -= gone
            known |= _matching(text, new)
        self._names = names
        self._asked.clear()

    def of(self, text: str) -> set[str]:
        self._asked.add(text)
        known = self._matches.get(text)
        if known is None:
            known = self._matches[text] = _matching(text, self._names)
        return known


def _matching(text: str, names: frozenset[str]) -> set[str]:
    """None of them, if the expression is invalid or would take too long: it is then reported as one without matches."""
    try:
        matches = quick_test(text) or Pattern(text).found_in
        return {name for name in names if matches(name)}
    except (ValueError, TooCostly):
        return set()


class Members:
    """The nodes of one moment, in the order of their rows."""

    def __init__(self, nodes: Sequence[tuple[str, Labels]], patterns: PatternMatches) -> None:
        self.names = [name for name, _ in nodes]
        self._labels = [labels for _, labels in nodes]
        self._rows = {name: row for row, (name, _) in enumerate(nodes)}
        self._patterns = patterns
        self._by_label: dict[str, dict[str, list[int]]] = {}  # by key and value
        patterns.show(frozenset(self._rows))

    def __len__(self) -> int:
        return len(self._labels)

    def selected(self, selector: MemberSelector) -> list[int]:
        """The rows of the nodes, in no particular order."""
        if selector.exact_match is not None:
            row = self._rows.get(selector.exact_match.name)
            return [] if row is None else [row]
        if selector.regex_match is not None:
            return [self._rows[name] for name in self._patterns.of(selector.regex_match.pattern)]
        if selector.label_match is not None:
            return self._labelled(selector.label_match)
        return []

    def _labelled(self, selector: LabelSelector) -> list[int]:
        first = next(iter(selector.match_labels.items()), None)
        rows = range(len(self._labels)) if first is None else self.with_label(first[0]).get(first[1], ())
        return [row for row in rows if matches_labels(selector, self._labels[row])]

    @cached_property
    def keys(self) -> frozenset[str]:
        """Of all labels that a node has. Groups may name thousands of others, for which no node is looked at."""
        return frozenset().union(*self._labels)

    def with_label(self, key: str) -> dict[str, list[int]]:
        """The rows of the nodes that have a value for it, by the value."""
        known = self._by_label.get(key)
        if known is None:
            known = self._by_label[key] = {}
            for row, labels in enumerate(self._labels):
                if value := labels.get(key):
                    known.setdefault(value, []).append(row)
        return known
