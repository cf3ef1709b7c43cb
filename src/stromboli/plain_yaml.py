"""YAML that holds no more than JSON can, within limits: what every file of a user is read with.

`PlainLoader` knows the types of JSON only. A date stays text, because Kubernetes objects hold text, and a tag such as
`!!set` or `!!binary` is an error.

The C parser composes nested values by recursion, without a limit: fifty thousand brackets overflow the stack, and the
process dies without a message. Aliases are a second way to a huge value: ten lines of lists of aliases expand to
millions of items, and `&a [*a]` never ends. And each value costs some hundred bytes, however short its text is. So the
size and the depth of documents are checked before a text is composed, and the aliases before anybody walks through the
value. Nothing that Kubernetes understands comes near these limits. The checks raise a YAML error, like the parser
itself.

Four more things would take time by the square of their length: numbers in base 60 (`1:30:00`), which Kubernetes takes
for text, as we do; numbers as keys, which can be chosen so that all have the same hash, and so stay text; declarations
of tags; and merge keys (`<<`) in one mapping.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any, Final, NoReturn, cast

import yaml

try:
    from yaml import CSafeLoader as SafeLoader
except ImportError:  # PyYAML built without libyaml: the same results, slower.
    from yaml import SafeLoader  # type: ignore[assignment]

_TAG: Final = "tag:yaml.org,2002:"
_TYPES: Final = tuple(f"{_TAG}{name}" for name in ("null", "bool", "int", "float", "str", "seq", "map"))


LONGEST_NUMBER: Final = 1_000  # characters
MOST_MERGE_KEYS: Final = 100  # in one mapping; each may name a list of mappings
MOST_DIRECTIVES: Final = 16  # in one text

_MERGE: Final = f"{_TAG}merge"
_NUMBERS: Final = (f"{_TAG}int", f"{_TAG}float")
_BASE_60: Final = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")


class PlainLoader(SafeLoader):
    """The types of JSON."""

    def resolve(self, kind: type[yaml.Node], value: str | None, implicit: object) -> str:
        tag = cast(str, super().resolve(kind, value, implicit))  # type: ignore[no-untyped-call]
        return f"{_TAG}str" if tag in _NUMBERS and _BASE_60.fullmatch(value or "") else tag

    def construct_number(self, node: yaml.ScalarNode) -> int | float:
        if len(node.value) > LONGEST_NUMBER:
            problem = f"a number is longer than {LONGEST_NUMBER} characters"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        if ":" in node.value:
            problem = f'"{node.value}" is not a number'
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        return cast(int | float, SafeLoader.yaml_constructors[node.tag](self, node))

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        for key, _ in node.value:
            if key.tag in _NUMBERS:
                key.tag = f"{_TAG}str"
        return super().construct_mapping(node, deep=deep)

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        if sum(key.tag == _MERGE for key, _ in node.value) > MOST_MERGE_KEYS:
            problem = f'a mapping has more than {MOST_MERGE_KEYS} keys "<<"; give a list to one of them'
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        super().flatten_mapping(node)

    def construct_undefined(self, node: yaml.Node) -> NoReturn:
        problem = f'the tag "{node.tag}" is not supported'
        raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


PlainLoader.yaml_constructors = {tag: SafeLoader.yaml_constructors[tag] for tag in _TYPES}
PlainLoader.yaml_constructors |= dict.fromkeys(_NUMBERS, PlainLoader.construct_number)
PlainLoader.yaml_constructors[None] = PlainLoader.construct_undefined  # for all other tags
PlainLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != f"{_TAG}timestamp"]
    for first, resolvers in SafeLoader.yaml_implicit_resolvers.items()
}

MAX_DEPTH: Final = 100
MAX_VALUES: Final = 1_000_000
"""The limit for the values in one document, where each alias counts as all that it stands for."""

LARGEST_DOCUMENT: Final = 8 << 20  # characters; an API server takes objects of 1.5 MB

_TOO_LARGE: Final = f"a document is longer than {LARGEST_DOCUMENT} characters; divide it, or the objects in it"
_TOO_MANY_DIRECTIVES: Final = f'more than {MOST_DIRECTIVES} lines begin with "%TAG"'
_TOO_DEEP: Final = f"it is nested more than {MAX_DEPTH} levels deep"
_SAFE_BOUND: Final = 200
"""Depths up to here are harmless to the parser; a text that cannot be deeper is not scanned."""
# What YAML takes for the end of a line is more than a line feed. Text that looks like a mark between documents and is
# none (`---a`) must not divide a document here, or it would seem less deep than it is.
_BREAKS: Final = "\r\n\x85\u2028\u2029"
_INDENTATION: Final = re.compile(rf"(?:^|[{_BREAKS}])[-?: \t\ufeff]*")  # spaces and the signs of lists and mappings
_MARK: Final = re.compile(rf"[{_BREAKS}]---(?=[ \t{_BREAKS}]|$)")
_DIRECTIVE: Final = re.compile(rf"(?:^|[{_BREAKS}])\ufeff?%TAG")
_STEPS: Final = {
    yaml.SequenceStartEvent: 1, yaml.MappingStartEvent: 1,
    yaml.SequenceEndEvent: -1, yaml.MappingEndEvent: -1,
}  # fmt: skip


def check_text(text: str) -> None:
    """Raise a YAML error if a document is too large or too deep. To be called before the text is composed."""
    if "%" in text and len(_DIRECTIVE.findall(text)) > MOST_DIRECTIVES:
        raise yaml.composer.ComposerError(None, None, _TOO_MANY_DIRECTIVES, None)
    documents = _MARK.split(text)
    if max(map(len, documents)) > LARGEST_DOCUMENT:
        raise yaml.composer.ComposerError(None, None, _TOO_LARGE, None)
    if max(map(_largest_depth, documents)) <= _SAFE_BOUND:
        return
    depth = 0
    loader = None
    try:
        loader = SafeLoader(text)
        while (event := loader.get_event()) is not None:
            depth += _STEPS.get(type(event), 0)
            if depth > MAX_DEPTH:
                break
        else:
            return
    except yaml.YAMLError:
        return  # The error is reported when the text is composed, which does not get further than this scan.
    finally:
        if loader is not None:
            loader.dispose()
    raise yaml.composer.ComposerError(None, None, _TOO_DEEP, cast(yaml.Mark, event.start_mark))


def check_aliases(text: str, root: yaml.Node) -> None:
    """Raise a YAML error if the aliases of a composed document make it endless or huge."""
    if "*" in text:
        _Expansion().measure(root)


def load(text: str) -> object:
    """The value of a single document; None if it is empty. Raises yaml.YAMLError or ValueError."""
    check_text(text)
    loader = PlainLoader(text)
    try:
        root = loader.get_single_node()
        if root is None:
            return None
        check_aliases(text, root)
        return cast(object, loader.construct_document(root))
    finally:
        loader.dispose()


def _largest_depth(document: str) -> int:
    """A cheap upper bound: each bracket may open a level, and so may each column of the indentation, twice (a list in a
    mapping may stand in the same column)."""
    brackets = document.count("[") + document.count("{")
    return brackets + 2 * max(map(len, _INDENTATION.findall(document)))


class _Expansion:
    """How deep and how large a document is once its aliases are expanded. Each node is measured once."""

    def __init__(self) -> None:
        self._measured: dict[int, tuple[int, int]] = {}  # by id of a node: depth and number of values
        self._within: set[int] = set()  # ids of the nodes that contain the present one

    def measure(self, node: yaml.Node) -> tuple[int, int]:
        if id(node) in self._measured:
            return self._measured[id(node)]
        if id(node) in self._within:
            raise yaml.composer.ComposerError(None, None, "a value must not contain itself", node.start_mark)
        depth, size = 0, 1
        if isinstance(node, yaml.CollectionNode):
            self._within.add(id(node))
            for child in _children(node):
                inside, values = self.measure(child)
                depth, size = max(depth, inside + 1), size + values
            self._within.remove(id(node))
        if depth > MAX_DEPTH:
            raise yaml.composer.ComposerError(None, None, _TOO_DEEP, node.start_mark)
        if size > MAX_VALUES:
            problem = f"its aliases stand for more than {MAX_VALUES} values"
            raise yaml.composer.ComposerError(None, None, problem, node.start_mark)
        self._measured[id(node)] = depth, size
        return depth, size


def _children(node: yaml.CollectionNode) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value)
