"""The small rules that objects share: names, labels, counts, amounts, selectors.

Each takes a value and the path of the field it stands in, and either returns or raises an `ApiError` for
that field. Names and labels repeat by the thousand in a cluster, so what was found well-formed once is
remembered.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import lru_cache

from stromboli.api.errors import ApiError, member, shown
from stromboli.api.kinds.metadata import LabelSelector, ObjectMeta, ResourceList
from stromboli.api.quantity import QuantityError, amount, parse_duration, parse_quantity

LARGEST_COUNT = 2**31 - 1

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_DNS_LABEL = re.compile(_LABEL)
_QUALIFIED = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
SELECTOR_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


def one_of(value: str, allowed: Collection[str], at: str) -> None:
    if value not in allowed:
        choices = ", ".join(choice for choice in allowed if choice)
        raise ApiError(at, f"must be one of {choices}, not {shown(value)}")


def between(value: int, low: int, high: int, at: str) -> None:
    if not low <= value <= high:
        raise ApiError(at, f"must be between {low} and {high}, not {value}")


def at_least(value: int, least: int, at: str) -> None:
    """A count, which like all of Kubernetes' counts fits 32 bits."""
    if value < least:
        raise ApiError(at, f"must be {least} or more, not {value}")
    if value > LARGEST_COUNT:
        raise ApiError(at, f"must be at most {LARGEST_COUNT}, not {value}")


def required(value: object, at: str) -> None:
    if not value:
        raise ApiError(at, "is required")


def dns_subdomain(name: str, at: str) -> None:
    if not _is_subdomain(name):
        raise ApiError(
            at, f'must be lower-case letters, digits, "-" and ".", at most 253 characters, not {shown(name)}'
        )


def dns_label(name: str, at: str) -> None:
    if not _is_dns_label(name):
        raise ApiError(
            at, f'must be lower-case letters, digits and "-", at most 63 characters, not {shown(name)}'
        )


def labels(given: Mapping[str, str], at: str) -> None:
    for name, value in given.items():
        if not (_is_label_key(name) and _is_label_value(value)):
            label_key(name, member(at, name))
            label_value(value, member(at, name))


def label_key(name: str, at: str) -> None:
    if not _is_label_key(name):
        raise ApiError(at, f'must have a key such as "app" or "example.com/app", not {shown(name)}')


def label_value(value: str, at: str) -> None:
    if not _is_label_value(value):
        raise ApiError(
            at, f'must be letters, digits, "-", "_" and ".", at most 63 characters, not {shown(value)}'
        )


def label_selector(selector: LabelSelector | None, at: str) -> None:
    if selector is None:
        return
    labels(selector.match_labels, f"{at}.matchLabels")
    for index, requirement in enumerate(selector.match_expressions):
        here = f"{at}.matchExpressions[{index}]"
        label_key(requirement.key, f"{here}.key")
        one_of(requirement.operator, SELECTOR_OPERATORS, f"{here}.operator")
        operands(requirement.operator, requirement.values, f"{here}.values")
        for position, value in enumerate(requirement.values):
            label_value(value, f"{here}.values[{position}]")


def operands(operator: str, values: list[str], at: str) -> None:
    """How many values an operator takes: In and NotIn some, Exists and DoesNotExist none."""
    if operator in ("In", "NotIn") and not values:
        raise ApiError(at, f"must have at least one value for the operator {operator}")
    if operator in ("Exists", "DoesNotExist") and values:
        raise ApiError(at, f"must be empty for the operator {operator}")


def quantities(resource_list: ResourceList, at: str, *, besides: Collection[str] = ()) -> dict[str, int]:
    """The list as exact amounts, when every one can be read and none is below zero. What is named `besides` only
    stands in the list and is no amount."""
    counted: dict[str, int] = {}
    for resource, quantity in resource_list.items():
        if resource in besides:
            continue
        try:
            counted[resource] = value = amount(resource, quantity)
        except QuantityError as error:
            raise ApiError(member(at, resource), str(error)) from None
        if value < 0:
            raise ApiError(member(at, resource), f"must be 0 or more, not {shown(quantity)}")
    return counted


def whole(quantity: str | int | float, at: str) -> None:
    if parse_quantity(quantity).denominator != 1:
        raise ApiError(at, f"must be a whole number, not {shown(quantity)}")


def within(smaller: ResourceList, larger: ResourceList, at: str, other: str) -> None:
    """Each amount of one list at most that of another, for the resources both of them name."""
    for resource, quantity in smaller.items():
        if resource in larger and amount(resource, quantity) > amount(resource, larger[resource]):
            raise ApiError(
                member(at, resource),
                f"must be at most {other}, which is {shown(larger[resource])}, not {shown(quantity)}",
            )


def duration(value: str | int | float | None, at: str) -> None:
    if value is None:
        return
    try:
        parse_duration(value)
    except QuantityError as error:
        raise ApiError(at, str(error)) from None


def metadata(meta: ObjectMeta, *, name_is_label: bool = False) -> None:
    required(meta.name, "metadata.name")
    (dns_label if name_is_label else dns_subdomain)(meta.name, "metadata.name")
    if meta.namespace:
        dns_label(meta.namespace, "metadata.namespace")
    annotated(meta, "metadata")


def annotated(meta: ObjectMeta, at: str) -> None:
    """Labels and annotation keys: all that a pod template's metadata is checked for."""
    labels(meta.labels, f"{at}.labels")
    for name in meta.annotations:
        label_key(name.lower(), member(f"{at}.annotations", name))


@lru_cache(maxsize=65536)
def _is_subdomain(name: str) -> bool:
    return len(name) <= 253 and _SUBDOMAIN.fullmatch(name) is not None


@lru_cache(maxsize=65536)
def _is_dns_label(name: str) -> bool:
    return len(name) <= 63 and _DNS_LABEL.fullmatch(name) is not None


@lru_cache(maxsize=65536)
def _is_label_value(value: str) -> bool:
    return not value or (len(value) <= 63 and _QUALIFIED.fullmatch(value) is not None)


@lru_cache(maxsize=65536)
def _is_label_key(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    if slash and not _is_subdomain(prefix):
        return False
    return len(name) <= 63 and _QUALIFIED.fullmatch(name) is not None
