"""Regular expressions of others, matched in a time that grows with the text and not beyond.

A definition of a resource may have any `pattern`, and a HyperNode selects its members with one. Python's `re` goes back
and tries again, so that `(a+)+$` needs twice as long for each further `a`: thirty of them stop the process. Kubernetes
matches with automata, and so do we: the expression becomes a list of instructions, and the text is read once, with the
set of all instructions that could be next. Sets that were seen before are remembered, so a common pattern costs one
look-up for each character.

Go's dialect has neither references back nor looks around, and has classes such as `[[:digit:]]` that Python reads as
something else: an expression with one of these cannot be matched here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, Final

_LONGEST: Final = 10_000
MOST_INSTRUCTIONS: Final = 5_000
_MOST_STEPS: Final = 500_000  # of instructions, for one text: a few tenths of a second
_MOST_REMEMBERED: Final = 5_000
_MOST_REMEMBERED_PLACES: Final = 100_000  # in all sets that are remembered: a few MB
_CLASS: Final = re.compile(r"\[:\^?[a-z]+:\]")
_TOO_MANY: Final = 100
_SINGLE: Final = (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN)

Test = Callable[[str], bool]
_EDGE, _WORD, _LINE, _OTHER = "edge", "word", "line", "other"  # what stands before or after a place
_END: Final = ""


class TooCostly(Exception):
    """To match this text would take too long."""


class Pattern:
    """Instructions are tuples: ("test", f), ("go", targets), ("at", f), ("found",)."""

    def __init__(self, text: str) -> None:
        """Raises ValueError for an expression that cannot be matched this way."""
        if len(text) > _LONGEST:
            raise ValueError("the expression is too long")
        if _CLASS.search(text):
            raise ValueError("classes such as [:digit:] are not supported: write [0-9]")
        try:
            tree = parser.parse(text.replace(r"\z", r"\Z"))
            self._code: list[tuple[Any, ...]] = []
            self._sequence(tree, tree.state.flags)
        except (re.error, RecursionError, OverflowError) as error:
            raise ValueError(str(error)) from None
        self._code.append(("found",))
        self._next: dict[tuple[frozenset[int], str, str], tuple[frozenset[int], bool]] = {}
        self._remembered_places = 0

    @property
    def size(self) -> int:
        return len(self._code)

    def found_in(self, text: str, take: Callable[[int], None] = lambda steps: None) -> bool:
        """Whether any part of the text matches. Raises TooCostly. `take` is told of the steps before they are done."""
        current, before, steps = frozenset((0,)), _EDGE, 0
        for character in (*text, _END):
            known = self._next.get((current, before, character))
            if known is None:
                more = 1 + len(current) + len(self._code) // 8
                steps += more
                if steps > _MOST_STEPS:
                    raise TooCostly
                take(more)
                known = self._step(current, before, character)
                self._remember((current, before, character), known)
            current, found = known
            if found:
                return True
            before = _kind(character)
        return False

    def _remember(self, at: tuple[frozenset[int], str, str], known: tuple[frozenset[int], bool]) -> None:
        if len(self._next) >= _MOST_REMEMBERED or self._remembered_places >= _MOST_REMEMBERED_PLACES:
            self._next.clear()
            self._remembered_places = 0
        self._next[at] = known
        self._remembered_places += len(known[0])

    def _step(self, current: frozenset[int], before: str, character: str) -> tuple[frozenset[int], bool]:
        """Where one can be after the character, and whether a match ends before it."""
        following, seen, open_ends = {0}, set(), list(current)  # 0: a match may begin at every place
        while open_ends:
            at = open_ends.pop()
            if at in seen:
                continue
            seen.add(at)
            kind, *rest = self._code[at]
            if kind == "found":
                return frozenset(), True
            if kind == "go":
                open_ends.extend(rest[0])
            elif kind == "at":
                if rest[0](before, _kind(character)):
                    open_ends.append(at + 1)
            elif character != _END and rest[0](character):
                following.add(at + 1)
        return frozenset(following), False

    # -- compiling ----------------------------------------------------------------------------------------------------

    def _emit(self, *instruction: Any) -> int:
        if len(self._code) >= MOST_INSTRUCTIONS:
            raise ValueError("the expression is too large")
        self._code.append(instruction)
        return len(self._code) - 1

    def _sequence(self, items: Iterable[Any], flags: int) -> None:
        for operation, argument in items:
            self._one(operation, argument, flags)

    def _one(self, operation: Any, argument: Any, flags: int) -> None:
        if operation in (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN):
            self._emit("test", _test(operation, argument, flags))
        elif operation is sre.AT:
            self._emit("at", _place(argument, flags))
        elif operation is sre.SUBPATTERN:
            _, added, removed, inner = argument
            self._sequence(inner, (flags | added) & ~removed)
        elif operation is sre.BRANCH:
            self._branch(argument[1], flags)
        elif operation in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            least, most, inner = argument
            self._repeat(least, most, inner, flags)
        else:
            raise ValueError(f"{operation} is not supported")

    def _branch(self, choices: list[Any], flags: int) -> None:
        fork = self._emit("go", [])
        ends = []
        for choice in choices:
            self._code[fork][1].append(len(self._code))
            self._sequence(choice, flags)
            ends.append(self._emit("go", []))
        for end in ends:
            self._code[end][1].append(len(self._code))

    def _repeat(self, least: int, most: Any, inner: Any, flags: int) -> None:
        for _ in range(least):
            self._emit("go", [len(self._code) + 1])  # counts, so that a repeated nothing is limited as well
            self._sequence(inner, flags)
        if most is sre.MAXREPEAT:
            fork = self._emit("go", [len(self._code) + 1])
            self._sequence(inner, flags)
            self._emit("go", [fork])
            self._code[fork][1].append(len(self._code))
            return
        forks = []
        for _ in range(int(most) - least):
            forks.append(self._emit("go", [len(self._code) + 1]))
            self._sequence(inner, flags)
        for fork in forks:
            self._code[fork][1].append(len(self._code))


@lru_cache(maxsize=512)
def pattern(text: str) -> Pattern | None:
    """None if the expression cannot be matched here: it is then not checked, as refusing everything would be worse."""
    try:
        return Pattern(text)
    except ValueError:
        return None


def quick_test(text: str) -> Test | None:
    """The same for names, some fifty times faster, of an expression that Python's `re` cannot stumble over: whatever it
    repeats are single characters, and it does so at most twice, or once if a match may begin anywhere. None for others.
    """
    if _CLASS.search(text):
        return None
    try:
        tree = list(parser.parse(text.replace(r"\z", r"\Z")))
        is_anchored = bool(tree) and tree[0] == (sre.AT, sre.AT_BEGINNING)
        if _repeats(tree) > (2 if is_anchored else 1):
            return None
        found = re.compile(text.replace(r"\z", r"\Z"), re.ASCII).search
    except (re.error, RecursionError, OverflowError):
        return None
    return lambda name: found(name) is not None


def _repeats(items: Iterable[Any]) -> int:
    """How many repeats there are; more than allowed if anything is in it that is not simple."""
    number = 0
    for operation, argument in items:
        if operation is sre.SUBPATTERN:
            _, added, removed, inner = argument
            number += _TOO_MANY if added or removed else _repeats(inner)
        elif operation is sre.BRANCH:
            number += _TOO_MANY * any(_repeats(choice) for choice in argument[1])
        elif operation in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            (inner_operation, _), *more = argument[2]
            number += 1 if inner_operation in _SINGLE and not more else _TOO_MANY
        elif operation not in (*_SINGLE, sre.AT):
            number += _TOO_MANY
    return number


def _kind(character: str) -> str:
    if character == _END:
        return _EDGE
    return _LINE if character == "\n" else _WORD if _is_word(character) else _OTHER


def _is_word(character: str) -> bool:
    return character.isascii() and (character.isalnum() or character == "_")


def _place(where: Any, flags: int) -> Callable[[str, str], bool]:
    lines = bool(flags & re.MULTILINE)
    if where in (sre.AT_BEGINNING, sre.AT_BEGINNING_STRING):
        also = _LINE if lines and where is sre.AT_BEGINNING else _EDGE
        return lambda before, after: before in (_EDGE, also)
    if where in (sre.AT_END, sre.AT_END_STRING):
        also = _LINE if lines and where is sre.AT_END else _EDGE
        return lambda before, after: after in (_EDGE, also)
    inside = where is sre.AT_NON_BOUNDARY
    return lambda before, after: ((before == _WORD) == (after == _WORD)) == inside


def _test(operation: Any, argument: Any, flags: int) -> Test:
    if operation is sre.ANY:
        return (lambda c: True) if flags & re.DOTALL else (lambda c: c != "\n")
    if operation is sre.IN:
        negated = bool(argument) and argument[0][0] is sre.NEGATE
        tests = [_member(*item) for item in (argument[1:] if negated else argument)]
        found = _folded(lambda c: any(test(c) for test in tests), flags)
        return (lambda c: not found(c)) if negated else found
    wanted = chr(argument)
    same = _folded(lambda c: c == wanted, flags)
    return same if operation is sre.LITERAL else lambda c: not same(c)


def _folded(test: Test, flags: int) -> Test:
    if not flags & re.IGNORECASE:
        return test
    return lambda c: test(c) or test(c.lower()[:1]) or test(c.upper()[:1])


def _member(operation: Any, argument: Any) -> Test:
    if operation is sre.LITERAL:
        wanted = chr(argument)
        return lambda c: c == wanted
    if operation is sre.RANGE:
        first, last = argument
        return lambda c: first <= ord(c) <= last
    if operation is sre.CATEGORY and argument in _CATEGORIES:
        return _CATEGORIES[argument]
    raise ValueError(f"{operation} is not supported")


_CATEGORIES: Final[dict[Any, Test]] = {  # of ASCII, as in Go
    sre.CATEGORY_DIGIT: lambda c: c.isascii() and c.isdigit(),
    sre.CATEGORY_NOT_DIGIT: lambda c: not (c.isascii() and c.isdigit()),
    sre.CATEGORY_SPACE: lambda c: c in "\t\n\f\r ",
    sre.CATEGORY_NOT_SPACE: lambda c: c not in "\t\n\f\r ",
    sre.CATEGORY_WORD: _is_word,
    sre.CATEGORY_NOT_WORD: lambda c: not _is_word(c),
}
