"""The tables of docs/volcano-admission.md, from the table of specs. As a program (`python -m
documents.volcano_specs_table` in tests) it prints them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from validation.volcano_specs import SPECS


def tables() -> Iterator[str]:
    for suite in dict.fromkeys(spec.suite for spec in SPECS):
        yield f"## {suite}"
        rows = [(spec.name, *spec.verdict) for spec in SPECS if spec.suite == suite]
        lines = [f"| {name} | {who} | {what} |" for name, who, what in rows]
        yield "\n".join(["| spec | who | what is said |", "|---|---|---|", *lines])


def counts() -> Counter[str]:
    return Counter(spec.verdict[0].strip("*") for spec in SPECS)


if __name__ == "__main__":
    print("\n\n".join(tables()))
    print(counts())
