"""YAML in which every value knows its line.

"Line 7: must be true or false" tells an operator where to look. Plain dicts have no line numbers, so this module keeps
the marks of the parser: it turns a text into a tree of `Located` values. The methods `mapping`, `sequence`, `text` and
`flag` return a value of that type or raise an error with its place, so callers need no type checks.

Keys of mappings are the text as written: YAML would read the key `on` as true.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn, TypeVar

import yaml

from stromboli.plain_yaml import PlainLoader, check_aliases, check_text

from .arguments import ConfigurationError, quoted

V = TypeVar("V")

_MERGE = "tag:yaml.org,2002:merge"


@dataclass(frozen=True)
class Located:
    """A value and its place; `value` is a scalar, a tuple of Located, or a dict from str to Located."""

    value: object
    line: int
    where: str

    def error(self, problem: str) -> ConfigurationError:
        return ConfigurationError(problem, where=self.where, line=self.line)

    def mapping(self, what: str) -> Mapping[str, Located]:
        return {} if self.value is None else self._of(dict, what, "a mapping")

    def sequence(self, what: str) -> tuple[Located, ...]:
        return () if self.value is None else self._of(tuple, what, "a list")

    def text(self, what: str) -> str:
        return self._of(str, what, "a string")

    def flag(self, what: str) -> bool:
        return self._of(bool, what, "true or false")

    def _of(self, kind: type[V], what: str, wanted: str) -> V:
        if not isinstance(self.value, kind):
            raise self.error(f"{what} must be {wanted}, not {self._kind()}")
        return self.value

    def plain(self) -> object:
        """The value without line numbers, as a YAML loader returns it."""
        if isinstance(self.value, dict):
            return {key: child.plain() for key, child in self.value.items()}
        if isinstance(self.value, tuple):
            return [child.plain() for child in self.value]
        return self.value

    def _kind(self) -> str:
        if isinstance(self.value, dict):
            return "a mapping"
        if isinstance(self.value, tuple):
            return "a list"
        return "nothing" if self.value is None else quoted(self.value)


def read_located(text: str, *, where: str) -> Located:
    """The only document in `text`. An empty text is None on line 1."""
    loader = None
    try:
        check_text(text)
        loader = PlainLoader(text)
        root = loader.get_single_node()
        if root is None:
            return Located(None, 1, where)
        check_aliases(text, root)
        return _Reader(loader, where).read(root)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = " ".join((error.problem or error.context or "cannot be read").split())
        raise ConfigurationError(
            f"not valid YAML: {problem}", where=where, line=mark.line + 1 if mark else 0
        ) from error
    except yaml.YAMLError as error:
        problem = str(getattr(error, "reason", None) or error).splitlines()[0]
        raise ConfigurationError(f"not valid YAML: {problem}", where=where) from error
    finally:
        if loader is not None:
            loader.dispose()


class _Reader:
    """Turns the parser's nodes into Located values, each node once, even if aliases refer to it."""

    def __init__(self, loader: PlainLoader, where: str) -> None:
        self._loader = loader
        self._where = where
        self._done: dict[int, Located] = {}

    def read(self, root: yaml.Node) -> Located:
        self._check(root, seen=set())
        return self._read(root)

    def _read(self, node: yaml.Node) -> Located:
        if id(node) not in self._done:
            self._done[id(node)] = Located(self._value(node), node.start_mark.line + 1, self._where)
        return self._done[id(node)]

    def _value(self, node: yaml.Node) -> object:
        if isinstance(node, yaml.MappingNode):
            self._loader.flatten_mapping(node)
            return {key.value: self._read(value) for key, value in node.value}
        if isinstance(node, yaml.SequenceNode):
            return tuple(self._read(item) for item in node.value)
        try:
            return self._loader.construct_object(node)
        except (ValueError, OverflowError):  # "!!int ten", or a date such as 2024-02-31
            self._fail(node, f"{quoted(node.value)} is not a value YAML can read")

    def _check(self, node: yaml.Node, *, seen: set[int]) -> None:
        # Must run before merge keys are resolved: what `<<` adds may be overridden, but a key must not be written
        # twice.
        if id(node) in seen:
            return
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            keys: set[str] = set()
            for key, value in node.value:
                if not isinstance(key, yaml.ScalarNode):
                    self._fail(key, "a key must be a string")
                if key.value in keys and key.tag != _MERGE:
                    self._fail(key, f"{quoted(key.value)} is set twice; keep one of them")
                keys.add(key.value)
                self._check(value, seen=seen)
        elif isinstance(node, yaml.SequenceNode):
            for item in node.value:
                self._check(item, seen=seen)

    def _fail(self, node: yaml.Node, problem: str) -> NoReturn:
        raise ConfigurationError(problem, where=self._where, line=node.start_mark.line + 1)
