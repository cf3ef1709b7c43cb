"""YAML documents with their file, number and line.

A scenario is often generated, or combined from several files, so an error has to name the document and the file. Every
document has its origin, which formats the error.

A key that is written twice is an error: YAML would silently keep the last one, and the user would look for the effect
of the first. So is a key that is not text, such as `1` or `on`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import yaml

from stromboli.errors import UserError
from stromboli.files import LARGEST_MANIFEST, read_input, read_standard_input
from stromboli.plain_yaml import PlainLoader, check_aliases, check_text

STANDARD_INPUT = "-"
_MERGE = "tag:yaml.org,2002:merge"
_TEXT = ("tag:yaml.org,2002:str", "tag:yaml.org,2002:value", _MERGE)


@dataclass(frozen=True, slots=True)
class Origin:
    """The file of a document, its number in the file, and its first line."""

    file: str
    number: int
    line: int

    def error(self, message: str, *, title: str = "", field: str = "") -> UserError:
        """The error as one line for the user; `title` names the object, such as `Pod ns1/p1`."""
        place = f"{self.file}, document {self.number}" + (f" ({title})" if title else f" (line {self.line})")
        return UserError(": ".join(part for part in (place, field, message) if part))


@dataclass(frozen=True, slots=True)
class Document:
    content: Any
    origin: Origin


class _Loader(PlainLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key must be text", key.start_mark)
            if key.value in seen and key.tag != _MERGE:
                problem = f'the key "{key.value}" is given twice; keep one of them'
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen.add(key.value)
            if key.tag not in _TEXT:
                problem = f'the key "{key.value}" must be text; write it in quotes'
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
        return super().construct_mapping(node, deep=deep)


def read_documents(path: str) -> Iterator[Document]:
    """All documents of a file, or of the standard input for `-`; empty ones are counted and skipped."""
    if path == STANDARD_INPUT:
        name, data = "standard input", read_standard_input(LARGEST_MANIFEST)
    else:
        name, data = path, read_input(path, LARGEST_MANIFEST)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{name}: is not text in UTF-8 (byte {error.start})") from None
    yield from _documents(name, text)


def _documents(name: str, text: str) -> Iterator[Document]:
    number = 0
    loader: _Loader | None = None
    try:
        check_text(text)
        loader = _Loader(text)
        while loader.check_node():
            number += 1
            node = loader.get_node()
            assert node is not None, "check_node has found one"
            check_aliases(text, node)
            content = loader.construct_document(node)
            if content is not None:
                yield Document(content, Origin(name, number, node.start_mark.line + 1))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f" (line {mark.line + 1})" if mark else ""
        _not_yaml(f"{name}, document {max(number, 1)}{line}", error.problem or error.context or "cannot be read")
    except yaml.YAMLError as error:
        _not_yaml(name, getattr(error, "reason", None) or str(error))
    except (ValueError, OverflowError) as error:  # a tag that does not fit its value, such as "!!int ten"
        _not_yaml(f"{name}, document {number}", str(error))
    finally:
        if loader is not None:
            loader.dispose()


def _not_yaml(place: str, problem: str) -> NoReturn:
    raise UserError(f"{place}: not valid YAML: {' '.join(problem.split())}") from None
