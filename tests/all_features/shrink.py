"""Makes a failing world small: takes objects away as long as it fails in the same way, and then shortens it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import groupby

from all_features.judge import judge
from all_features.verdict import Finding
from all_features.world import Document, World


def shrink(
    world: World, seed: int, check: str = "", say: Callable[[str], None] = lambda text: None
) -> tuple[World, Finding]:
    """`check`: the checker that must fail, the first one that does unless given. `world` must fail."""
    findings = judge(world, seed, only=check).findings
    first = next(found for found in findings if check in ("", found.check))
    kind = _kind(first)

    def fails(smaller: World) -> bool:
        only = "" if first.check == "error" else first.check
        return any(_kind(found) == kind for found in judge(smaller, seed, only=only).findings)

    for part in (_whole_works, _single_documents):
        world = _without(world, part, fails, say)
    for until in range(max(1, int(first.time)), world.until):
        if fails(replace(world, until=until)):
            world = replace(world, until=until)
            break
    last = next(found for found in judge(world, seed, only=first.check).findings if _kind(found) == kind)
    return world, last


def _kind(finding: Finding) -> str:
    """The checker, and what it says without names and numbers."""
    plain = [word for word in finding.text.split() if word.isalpha()]
    return " ".join([finding.check, *plain[:3]])


def _whole_works(documents: list[Document]) -> list[list[Document]]:
    """Documents of one kind and one name, without the number at its end, such as a stream."""

    def label(document: Document) -> str:
        meta = document.get("metadata")
        return document["kind"] + (meta["name"].partition("-")[0] if meta else "")

    return [list(group) for _, group in groupby(sorted(documents, key=label), key=label)]


def _single_documents(documents: list[Document]) -> list[list[Document]]:
    return [[document] for document in documents]


def _without(
    world: World, parts: Callable[[list[Document]], list[list[Document]]], fails: Callable[[World], bool],
    say: Callable[[str], None],
) -> World:  # fmt: skip
    """Takes half of the parts away, then quarters, and so on down to single ones, until none can go."""
    size = max(1, len(parts(world.documents)) // 2)
    while True:
        changed = False
        start = 0
        while start < len(pieces := parts(world.documents)):
            left_out = {id(one) for piece in pieces[start : start + size] for one in piece}
            smaller = replace(world, documents=[one for one in world.documents if id(one) not in left_out])
            if fails(smaller):
                world, changed = smaller, True
                say(f"{len(world.documents)} documents")
            else:
                start += size
        if size == 1 and not changed:
            return world
        size = size if changed and size == 1 else max(1, size // 2)
