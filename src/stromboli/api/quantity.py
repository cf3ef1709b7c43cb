"""Quantities and durations: from text to exact numbers, and back.

Kubernetes writes amounts as decimal numbers with a suffix (`500m`, `1.5Gi`, `2e3`). As floats they would lose bytes
above 2**53, and 0.1 + 0.2 cores would not equal 0.3, so comparisons would not be reliable. So a quantity is a Fraction
while it is parsed and an integer afterwards: millicores for CPU, whole units for everything else. Fractions of a unit
are rounded away from zero, so that a request never becomes smaller.

A cluster of fifty thousand pods has only a few different amounts, so results are cached by their text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache

Written = str | int | float
"""How an amount arrives: text, or a bare number from YAML."""

LARGEST_AMOUNT = 2**63 - 1
"""Amounts live in columns of 64-bit integers, here as in Kubernetes."""

_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_QUANTITY = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))"
    r"(?:(?P<binary>[KMGTPE]i)|[eE](?P<exponent>[+-]?[0-9]+)|(?P<decimal>[numkMGTPE]?))"
)
# No real amount needs a larger power of ten, and 10**999999999 would exhaust the memory.
_LARGEST_EXPONENT = 99
_LONGEST_TEXT = 100

_UNIT_SECONDS = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),
    "μs": Fraction(1, 10**6),
    "ms": Fraction(1, 10**3),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
    "d": Fraction(86400),
}
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+")
_PART = re.compile(rf"(?P<number>{_NUMBER.pattern})(?P<unit>ns|us|µs|μs|ms|s|m|h|d)")
_LONGEST_SECONDS = 2**53


class QuantityError(ValueError):
    """An amount or a duration that cannot be parsed. Its text is a message for the user."""


def parse_quantity(text: Written) -> Fraction:
    """The exact value of a Kubernetes quantity, in whole units (cores, bytes)."""
    return _parse_quantity(_as_text(text, "a quantity"))


def amount(resource: str, quantity: Written) -> int:
    """A quantity as an integer: millicores of CPU, whole units of everything else, rounded away from zero."""
    return _amount(_as_text(quantity, "a quantity"), _unit_of(resource) == "cpu")


def amounts(resource_list: Mapping[str, Written]) -> dict[str, int]:
    return {resource: amount(resource, quantity) for resource, quantity in resource_list.items()}


def is_fraction_of_a_byte(resource: str, quantity: Written) -> bool:
    """Whether it is a number of bytes that is not whole, such as `400m` of memory."""
    return _unit_of(resource) == "bytes" and parse_quantity(quantity).denominator != 1


def format_amount(resource: str, amount: int) -> str:
    """The canonical Kubernetes text of an amount: `4`, `500m`, `8Gi`, `1536Mi`."""
    unit = _unit_of(resource)
    if unit == "cpu":
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    if unit == "bytes" and amount:
        for suffix, size in reversed(_BINARY.items()):
            if amount % size == 0:
                return f"{amount // size}{suffix}"
    return str(amount)


def stated_amount(resource: str, amount: int) -> str:
    """For sentences, exact: cores with up to three decimals (`9.6`), everything else as Kubernetes writes it. Where two
    amounts are compared, they must have one unit, and must not look equal if they are not."""
    if _unit_of(resource) != "cpu":
        return format_amount(resource, amount)
    cores, rest = divmod(abs(amount), 1000)
    decimals = f".{rest:03d}".rstrip("0") if rest else ""
    return f"{'-' if amount < 0 else ''}{cores}{decimals}"


def readable_amount(resource: str, amount: int) -> str:
    """For people: `1.5` cores, `7.63Gi` of memory, `3` devices. The text may be rounded, to three digits."""
    if resource == "cpu":
        return f"{amount / 1000:g}" if amount < 10_000_000 else str(round(amount / 1000))
    exact = format_amount(resource, amount)
    if len(exact) <= 5 or _unit_of(resource) != "bytes":
        return exact
    size, units = float(amount), ["", *_BINARY]
    while size >= 1024 and len(units) > 1:
        size = size / 1024
        del units[0]
    return f"{size:.3g}{units[0]}" if size < 1000 else f"{size:.0f}{units[0]}"


def parse_duration(text: Written) -> float:
    """Seconds of a duration: Go's syntax (`1h30m`, `250ms`), days (`2d`), or plain seconds (`90`, `1.5`)."""
    return _parse_duration(_as_text(text, "a duration"))


def format_duration(seconds: float) -> str:
    """A duration to the millisecond, in its shortest form: `1h30m`, `2.5s`, `250ms`, `0s`."""
    milliseconds = round(abs(seconds) * 1000)
    if milliseconds == 0:
        return "0s"
    sign = "-" if seconds < 0 else ""
    if milliseconds < 1000:
        return f"{sign}{milliseconds}ms"
    hours, rest = divmod(milliseconds, 3_600_000)
    minutes, rest = divmod(rest, 60_000)
    whole, thousandths = divmod(rest, 1000)
    parts = [f"{hours}h" if hours else "", f"{minutes}m" if minutes else ""]
    if thousandths:
        parts.append(f"{whole}.{thousandths:03d}".rstrip("0") + "s")
    elif whole:
        parts.append(f"{whole}s")
    return sign + "".join(parts)


def _as_text(value: object, what: str) -> str:
    """Numbers are parsed from their text: the float 0.1 means a tenth, not the nearest binary fraction.

    The type is checked here, before the cache is used, because True and 1 are the same key in a cache.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise QuantityError(f"must be {what}, not {value!r}")
    if isinstance(value, float) and not math.isfinite(value):
        raise QuantityError(f"must be {what} that is finite, not {value!r}")
    if isinstance(value, int) and abs(value) > 10**_LARGEST_EXPONENT:
        raise QuantityError(f"must be {what} of at most {_LARGEST_EXPONENT} digits")
    return repr(value)


def _quoted(text: str) -> str:
    quote = text if len(text) <= 40 else text[:37] + "..."
    return '"' + quote.encode("unicode_escape").decode("ascii") + '"'


def _unit_of(resource: str) -> str:
    """`cpu`, `bytes` or `count`. A quota's `requests.cpu` has the unit of `cpu`."""
    if resource in ("cpu", "requests.cpu", "limits.cpu"):
        return "cpu"
    name = resource.removeprefix("requests.").removeprefix("limits.")
    if name in ("memory", "ephemeral-storage", "storage") or name.startswith("hugepages-"):
        return "bytes"
    return "count"


@lru_cache(maxsize=65536)
def _parse_quantity(text: str) -> Fraction:
    match = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST_TEXT else None
    if match is None:
        raise QuantityError(f'must be a quantity such as "500m", "2" or "1.5Gi", not {_quoted(text)}')
    number = Fraction(match["number"])
    if match["binary"]:
        return number * _BINARY[match["binary"]]
    exponent = int(match["exponent"]) if match["exponent"] else _DECIMAL[match["decimal"] or ""]
    if abs(exponent) > _LARGEST_EXPONENT:
        raise QuantityError(f"must have an exponent of at most {_LARGEST_EXPONENT}, not {_quoted(text)}")
    return number * Fraction(10) ** exponent


@lru_cache(maxsize=65536)
def _amount(text: str, is_cpu: bool) -> int:
    exact = _parse_quantity(text) * (1000 if is_cpu else 1)
    rounded = math.ceil(exact) if exact >= 0 else math.floor(exact)
    if abs(rounded) > LARGEST_AMOUNT:
        unit = "millicores" if is_cpu else "units"
        raise QuantityError(f"must be less than 2**63 {unit}, not {_quoted(text)}")
    return rounded


@lru_cache(maxsize=4096)
def _parse_duration(text: str) -> float:
    if text.startswith("-"):
        raise QuantityError(f"must be a duration of 0 or more, not {_quoted(text)}")
    body = text.removeprefix("+")
    seconds = _sum_of_parts(body) if 0 < len(body) <= _LONGEST_TEXT else None
    if seconds is None:
        raise QuantityError(f'must be a duration such as "30s", "5m" or "1h30m", or plain seconds, not {_quoted(text)}')
    if seconds > _LONGEST_SECONDS:
        raise QuantityError(f"must be a shorter duration than {_quoted(text)}")
    return float(seconds)


def _sum_of_parts(body: str) -> Fraction | None:
    if re.fullmatch(rf"(?:{_NUMBER.pattern})(?:e[+-]?[0-9]{{1,2}})?", body):
        return Fraction(body)
    seconds, position = Fraction(0), 0
    while position < len(body):
        part = _PART.match(body, position)
        if part is None:
            return None
        seconds += Fraction(part["number"]) * _UNIT_SECONDS[part["unit"]]
        position = part.end()
    return seconds
