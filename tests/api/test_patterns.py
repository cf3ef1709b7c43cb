"""The quick way to match names gives the same answers as the one that is safe for all expressions."""

from __future__ import annotations

from random import Random

import pytest

from stromboli.api.validation.patterns import Pattern, quick_test

PARTS = (
    "a",
    "b",
    "-",
    ".",
    "[ab]",
    "[^a]",
    r"\d",
    r"\w",
    "(a|b)",
    "(ab)",
    "a*",
    "[ab]+",
    ".*",
    "a{1,3}",
    "b?",
    "(?:b|-a)",
)


def patterns(seed: int) -> str:
    random = Random(seed)
    text = "".join(random.choice(PARTS) for _ in range(random.randint(1, 5)))
    return random.choice(("", "^")) + text + random.choice(("", "$", r"\z"))


@pytest.mark.parametrize("seed", range(20))
def test_both_ways_agree(seed: int) -> None:
    random, quick = Random(seed), 0
    for number in range(200):
        text = patterns(seed * 1000 + number)
        matches = quick_test(text)
        if matches is None:
            continue
        quick += 1
        slow = Pattern(text)
        for _ in range(20):
            name = "".join(random.choice("ab-.1") for _ in range(random.randint(0, 8)))
            assert matches(name) == slow.found_in(name), (text, name)
    assert quick > 50


@pytest.mark.parametrize(
    "text",
    ["(a+)+$", "(a|aa)+$", "^a*a*a*b", "a*a*b", "(a*)*", r"(a)\1", "(?=a)b", "[[:digit:]]", "(?i:a)b", "(a", "(a*|b)c"],
)
def test_what_could_take_long_or_is_no_expression_is_not_for_it(text: str) -> None:
    assert quick_test(text) is None


def test_usual_expressions_are_quick() -> None:
    for text in ("^rack-1-.*$", "^node-[0-9]+$", "gpu-[0-9]+", "^(a|b)-r[0-9]+-n[0-9]+$", "^n[1-3]$", "n1|n2"):
        assert quick_test(text) is not None, text
