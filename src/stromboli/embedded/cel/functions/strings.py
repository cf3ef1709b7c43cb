"""Functions of texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from stromboli.api.validation.patterns import MOST_INSTRUCTIONS, Pattern, TooCostly
from stromboli.embedded.cel.syntax import Literal, Node
from stromboli.embedded.cel.values import Budget, CelError, CompileError

from .formats import check_format, formatted
from .function import Function, Functions, member, want
from .lists import index_of, last_index_of

_WHITESPACE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029"
    "\u202f\u205f\u3000"
)
_ASCII_LOWER: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_ASCII_UPPER: Final = {code + 32: code for code in range(ord("A"), ord("Z") + 1)}
_ESCAPED: Final = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
                   "\\": "\\\\", '"': '\\"'}  # fmt: skip
_patterns: Final[dict[str, Pattern]] = {}
_MOST_PATTERNS: Final = 512
_INSTRUCTION: Final = 10  # steps to make one of a pattern


def _text(body: Callable[..., Any]) -> Callable[..., Any]:
    """The function takes texts only, and as many steps as these are long."""

    def checked(budget: Budget, *texts: Any) -> Any:
        want(str, *texts)
        budget.take(sum(map(len, texts)) // 10)
        return body(*texts)

    return checked


def _pattern(text: str, budget: Budget) -> Pattern:
    """Raises ValueError. Those that expressions write out are made with them; others come from texts that are computed,
    and each may be a new one."""
    found = _patterns.get(text)
    if found is None:
        try:
            found = Pattern(text)
        except ValueError:
            budget.take(_INSTRUCTION * MOST_INSTRUCTIONS)
            raise
        budget.take(_INSTRUCTION * found.size)
        if len(_patterns) >= _MOST_PATTERNS:
            _patterns.clear()
        _patterns[text] = found
    return found


def _matches(budget: Budget, text: Any, pattern: Any) -> bool:
    want(str, text, pattern)
    budget.take(len(text))
    try:
        return _pattern(pattern, budget).found_in(text, budget.take)
    except ValueError as error:
        raise CelError(f"error parsing regexp: {error}") from None
    except TooCostly:
        raise CelError("the expression takes too long to match") from None


def _check_pattern(arguments: Sequence[Node]) -> None:
    pattern = arguments[1]
    if isinstance(pattern, Literal) and isinstance(pattern.value, str):
        try:
            _pattern(pattern.value, Budget(_INSTRUCTION * MOST_INSTRUCTIONS))
        except ValueError as error:
            raise CompileError(f"the pattern {pattern.value[:200]!r} cannot be matched here: {error}") from None


def _char_at(budget: Budget, text: Any, at: Any) -> str:
    want(str, text)
    want(int, at)
    if not 0 <= at <= len(text):
        raise CelError(f"index out of range: {at}")
    return str(text[at : at + 1])


def _index(budget: Budget, text: Any, wanted: Any, start: Any = 0) -> int:
    if isinstance(text, list):
        return index_of(budget, text, wanted)
    want(str, text, wanted)
    want(int, start)
    if start < 0:
        raise CelError(f"index out of range: {start}")
    budget.take(len(text))
    if not wanted:
        return int(start)
    return int(text.find(wanted, start))


def _last_index(budget: Budget, text: Any, wanted: Any, start: Any = None) -> int:
    if isinstance(text, list):
        return last_index_of(budget, text, wanted)
    want(str, text, wanted)
    budget.take(len(text))
    if start is None:
        return int(text.rfind(wanted))
    want(int, start)
    if start < 0:
        raise CelError(f"index out of range: {start}")
    if not wanted:
        return int(start)
    return int(text.rfind(wanted, 0, start + len(wanted))) if start < len(text) else -1


def _replace(budget: Budget, text: Any, old: Any, new: Any, count: Any = -1) -> str:
    want(str, text, old, new)
    want(int, count)
    found = len(text) + 1 if not old else text.count(old)
    budget.take(len(text) // 10 + found * (1 + len(new) // 10))
    return str(text.replace(old, new, count))


def _split(budget: Budget, text: Any, separator: Any, count: Any = -1) -> list[str]:
    want(str, text, separator)
    want(int, count)
    budget.take(len(text))
    if count == 0:
        return []
    if not separator:
        return [*text] if count < 0 or count >= len(text) else [*text[: count - 1], text[count - 1 :]]
    return list(text.split(separator, count - 1 if count > 0 else -1))


def _substring(budget: Budget, text: Any, start: Any, end: Any = None) -> str:
    want(str, text)
    end = len(text) if end is None else end
    want(int, start, end)
    if not 0 <= start <= end <= len(text):
        raise CelError(f"invalid substring range. start: {start}, end: {end}")
    budget.take((end - start) // 10)
    return str(text[start:end])


def _join(budget: Budget, items: Any, separator: Any = "") -> str:
    want(list, items)
    want(str, separator, *items)
    budget.take(len(items) + (sum(map(len, items)) + len(separator) * len(items)) // 10)
    return str(separator.join(items))


def _quote(text: str) -> str:
    return '"' + "".join(_ESCAPED.get(character, character) for character in text) + '"'


FUNCTIONS: Final[Functions] = {
    ("contains", True): member(_text(lambda text, part: part in text), 1),
    ("startsWith", True): member(_text(lambda text, part: text.startswith(part)), 1),
    ("endsWith", True): member(_text(lambda text, part: text.endswith(part)), 1),
    ("matches", True): Function(_matches, (1,), _check_pattern),
    ("matches", False): Function(_matches, (2,), _check_pattern),
    ("charAt", True): member(_char_at, 1),
    ("indexOf", True): member(_index, 1, 2),
    ("lastIndexOf", True): member(_last_index, 1, 2),
    ("lowerAscii", True): member(_text(lambda text: text.translate(_ASCII_LOWER))),
    ("upperAscii", True): member(_text(lambda text: text.translate(_ASCII_UPPER))),
    ("trim", True): member(_text(lambda text: text.strip(_WHITESPACE))),
    ("replace", True): member(_replace, 2, 3),
    ("split", True): member(_split, 1, 2),
    ("substring", True): member(_substring, 1, 2),
    ("join", True): member(_join, 0, 1),
    ("strings.quote", False): Function(_text(_quote), (1,)),
    ("format", True): Function(formatted, (1,), check_format),
}
