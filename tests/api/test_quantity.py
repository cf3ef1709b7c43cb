"""Amounts are exact, read as Kubernetes reads them, and written in its canonical form."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stromboli.api.quantity import (
    QuantityError,
    amount,
    amounts,
    format_amount,
    format_duration,
    parse_duration,
    parse_quantity,
    stated_amount,
)


def by_decimal(text: str) -> Fraction:
    """A second reader, by peeling suffixes off the end and leaving the number to Decimal."""
    factor = Decimal(1)
    powers = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
    with localcontext() as context:
        context.prec = 400
        if text.endswith("i"):
            factor = Decimal(1024) ** ("KMGTPE".index(text[-2]) + 1)
            text = text[:-2]
        elif text[-1] in powers:
            factor = Decimal(10) ** powers[text[-1]]
            text = text[:-1]
        return Fraction(Decimal(text) * factor)


digits = st.text("0123456789", min_size=1, max_size=20)
numbers = st.one_of(
    digits,
    digits.map(lambda whole: whole + "."),
    digits.map(lambda part: "." + part),
    st.tuples(digits, digits).map(".".join),
)
suffixes = st.one_of(
    st.sampled_from(["", *"numkMGTPE", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]),
    st.tuples(st.sampled_from("eE"), st.sampled_from(["", "+", "-"]), st.integers(0, 40)).map(
        lambda parts: f"{parts[0]}{parts[1]}{parts[2]}"
    ),
)
quantities = st.tuples(st.sampled_from(["", "+", "-"]), numbers, suffixes).map("".join)


@given(quantities)
def test_every_spelling_is_read_exactly(text: str) -> None:
    assert parse_quantity(text) == by_decimal(text)


@given(quantities.filter(lambda text: abs(by_decimal(text)) < 10**15), st.sampled_from(["cpu", "memory"]))
def test_an_amount_is_the_first_integer_away_from_zero(text: str, resource: str) -> None:
    exact = by_decimal(text) * (1000 if resource == "cpu" else 1)
    counted = amount(resource, text)
    assert abs(exact) <= abs(counted) < abs(exact) + 1
    assert counted * exact >= 0


@pytest.mark.parametrize(
    ("resource", "text", "counted"),
    [
        ("cpu", "500m", 500),
        ("cpu", "0.1", 100),
        ("cpu", 0.1, 100),  # the float nearest to a tenth lies above it; read as such it would be 101
        ("cpu", 2, 2000),
        ("cpu", "1u", 1),  # a thousandth of a millicore is still a request
        ("requests.cpu", "2", 2000),
        ("memory", "1.5Gi", 1536 * 2**20),
        ("memory", "1E", 10**18),
        ("memory", "1E3", 1000),
        ("memory", "100m", 1),
        ("memory", "-1.5", -2),
        ("memory", "9007199254740993", 2**53 + 1),  # the first integer a float cannot hold
        ("nvidia.com/gpu", "8", 8),
    ],
)
def test_amounts_in_their_units(resource: str, text: str | float, counted: int) -> None:
    assert amount(resource, text) == counted


@pytest.mark.parametrize(
    "text",
    [
        "",
        " 1",
        "1 ",
        "abc",
        "1K",
        "1ki",
        "1e",
        "e3",
        ".",
        "+",
        "1..2",
        "1_000",
        "0x10",
        "1mi",
        "١",
        "nan",
        "2c",
    ],
)
def test_what_is_no_quantity_is_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(QuantityError, match=r"^must be a quantity such as"):
        parse_quantity(text)


@pytest.mark.parametrize("value", [True, None, [], float("nan"), float("inf"), 10**100])
def test_values_that_are_no_amounts_are_refused(value: object) -> None:
    amount("cpu", 1)  # True equals 1: a cache that is asked first would answer for it
    with pytest.raises(QuantityError):
        amount("cpu", value)  # type: ignore[arg-type]


def test_an_endless_exponent_is_refused_before_it_is_computed() -> None:
    with pytest.raises(QuantityError, match="exponent"):
        parse_quantity("1e999999999")


def test_an_amount_beyond_64_bits_is_refused() -> None:
    assert amount("memory", str(2**63 - 1)) == 2**63 - 1
    with pytest.raises(QuantityError, match="less than"):
        amount("memory", str(2**63))
    with pytest.raises(QuantityError, match="millicores"):
        amount("cpu", "8Ei")


@pytest.mark.parametrize(
    ("resource", "counted", "text"),
    [
        ("cpu", 4000, "4"),
        ("cpu", 500, "500m"),
        ("cpu", 4500, "4500m"),
        ("cpu", 0, "0"),
        ("cpu", -1500, "-1500m"),
        ("memory", 8 * 2**30, "8Gi"),
        ("memory", 1536 * 2**20, "1536Mi"),
        ("memory", 1000, "1000"),
        ("memory", 0, "0"),
        ("memory", -(2**30), "-1Gi"),
        ("ephemeral-storage", 10 * 2**30, "10Gi"),
        ("nvidia.com/gpu", 1024, "1024"),
        ("pods", 2048, "2048"),
    ],
)
def test_canonical_text(resource: str, counted: int, text: str) -> None:
    assert format_amount(resource, counted) == text


@given(st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]), st.integers(-(2**63) + 1, 2**63 - 1))
def test_what_we_write_we_read_back(resource: str, counted: int) -> None:
    assert amount(resource, format_amount(resource, counted)) == counted
    assert amount(resource, stated_amount(resource, counted)) == counted


@pytest.mark.parametrize(
    ("resource", "counted", "text"),
    [
        ("cpu", 9600, "9.6"), ("cpu", 2000, "2"), ("cpu", 1, "0.001"), ("cpu", -1500, "-1.5"),
        ("cpu", 1_234_567, "1234.567"), ("requests.cpu", 250, "0.25"), ("memory", 1536 * 2**20, "1536Mi"),
        ("nvidia.com/gpu", 3, "3"),
    ],
)  # fmt: skip
def test_amounts_in_sentences(resource: str, counted: int, text: str) -> None:
    assert stated_amount(resource, counted) == text


def test_a_resource_list_is_read_name_by_name() -> None:
    assert amounts({"cpu": "1", "memory": "1Ki", "pods": 110}) == {"cpu": 1000, "memory": 1024, "pods": 110}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30.0),
        ("5m", 300.0),
        ("1h30m", 5400.0),
        ("250ms", 0.25),
        ("1m0.5s", 60.5),
        ("2d", 172800.0),
        ("+1s", 1.0),
        ("90", 90.0),
        ("1.5", 1.5),
        (".5s", 0.5),
        (10, 10.0),
        (0.25, 0.25),
        (1e-07, 1e-07),
        ("0", 0.0),
        ("3us", 3e-06),
    ],
)
def test_durations(text: str | float, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "5 m", "1x", "1h-3m", "m5", "1m30", "soon", "1e999", "٣s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(QuantityError, match=r"^must be a duration such as"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["-1s", -1, -0.5])
def test_time_does_not_run_backwards(text: str | float) -> None:
    with pytest.raises(QuantityError, match="0 or more"):
        parse_duration(text)


def test_a_duration_beyond_counting_is_refused() -> None:
    with pytest.raises(QuantityError, match="shorter"):
        parse_duration("9" * 30 + "h")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (0.25, "250ms"), (1, "1s"), (2.5, "2.5s"), (90, "1m30s"), (5400, "1h30m"), (86400, "24h")],
)
def test_durations_are_said_briefly(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.integers(0, 10**12))
def test_durations_come_back_to_the_millisecond(milliseconds: int) -> None:
    assert round(parse_duration(format_duration(milliseconds / 1000)) * 1000) == milliseconds
