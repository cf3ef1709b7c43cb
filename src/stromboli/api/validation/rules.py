"""The checks that objects share: names, labels, counts, amounts, selectors.

Each takes a value and the path of its field, and raises an `ApiError` for that field if the value is invalid. Names and
labels repeat by the thousand in a cluster, so results are cached.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import lru_cache

from stromboli.api.errors import ApiError, member_path, quote
from stromboli.api.kinds.metadata import LabelSelector, ObjectMeta, ResourceList
from stromboli.api.quantity import QuantityError, amount, parse_duration, parse_quantity
from stromboli.nearest_name import did_you_mean

from . import limits

LARGEST_COUNT = 2**31 - 1

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_DNS_LABEL = re.compile(_LABEL)
_QUALIFIED = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
SELECTOR_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


def one_of(value: str, allowed: Collection[str], at: str) -> None:
    if value not in allowed:
        choices = ", ".join(choice for choice in allowed if choice)
        raise ApiError(at, f"must be one of {choices}, not {quote(value)}{did_you_mean(value, allowed)}")


def between(value: int, low: int, high: int, at: str) -> None:
    if not low <= value <= high:
        raise ApiError(at, f"must be between {low} and {high}, not {value}")


def at_least(value: int, least: int, at: str) -> None:
    """A count, which fits 32 bits like all counts in Kubernetes."""
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
            at, f'must be lower-case letters, digits, "-" and ".", at most 253 characters, not {quote(name)}'
        )


def dns_label(name: str, at: str) -> None:
    if not _is_dns_label(name):
        raise ApiError(at, f'must be lower-case letters, digits and "-", at most 63 characters, not {quote(name)}')


def labels(given: Mapping[str, str], at: str) -> None:
    for name, value in given.items():
        if not (_is_label_key(name) and _is_label_value(value)):
            label_key(name, member_path(at, name))
            label_value(value, member_path(at, name))


def label_key(name: str, at: str) -> None:
    if not _is_label_key(name):
        raise ApiError(at, f'must have a key such as "app" or "example.com/app", not {quote(name)}')


def label_value(value: str, at: str) -> None:
    if not _is_label_value(value):
        raise ApiError(at, f'must be letters, digits, "-", "_" and ".", at most 63 characters, not {quote(value)}')


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


def operators(selector: LabelSelector | None, at: str) -> None:
    """Of a selector in a kind of ours: `api.rules` has the rest."""
    here, expressions = f"{at}.matchExpressions", [] if selector is None else selector.match_expressions
    limits.at_most(limits.MAX_EXPRESSIONS, expressions, here, "expressions")
    for index, requirement in enumerate(expressions):
        one_of(requirement.operator, SELECTOR_OPERATORS, f"{here}[{index}].operator")


def operands(operator: str, values: list[str], at: str) -> None:
    """The number of values of an operator: In and NotIn need some, Exists and DoesNotExist take none."""
    if operator in ("In", "NotIn") and not values:
        raise ApiError(at, f"must have at least one value for the operator {operator}")
    if operator in ("Exists", "DoesNotExist") and values:
        raise ApiError(at, f"must be empty for the operator {operator}")


def quantities(resource_list: ResourceList, at: str, *, besides: Collection[str] = ()) -> dict[str, int]:
    """The list as exact amounts, if all of them can be parsed and none is negative. Entries in `besides` are not
    amounts and are skipped."""
    counted: dict[str, int] = {}
    limits.check_list(resource_list, at)
    for resource, quantity in resource_list.items():
        if resource in besides:
            continue
        try:
            counted[resource] = value = amount(resource, quantity)
        except QuantityError as error:
            raise ApiError(member_path(at, resource), str(error)) from None
        if value < 0:
            raise ApiError(member_path(at, resource), f"must be 0 or more, not {quote(quantity)}")
    return counted


def whole(quantity: str | int | float, at: str) -> None:
    if parse_quantity(quantity).denominator != 1:
        raise ApiError(at, f"must be a whole number, not {quote(quantity)}")


def within(smaller: ResourceList, larger: ResourceList, at: str, other: str) -> None:
    """No amount of one list exceeds that of the other, for the resources that both of them name."""
    for resource, quantity in smaller.items():
        if resource in larger and amount(resource, quantity) > amount(resource, larger[resource]):
            raise ApiError(
                member_path(at, resource),
                f"must be at most {other}, which is {quote(larger[resource])}, not {quote(quantity)}",
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
    """Labels and annotation keys: all that is checked in the metadata of a pod template."""
    labels(meta.labels, f"{at}.labels")
    for name in meta.annotations:
        label_key(name.lower(), member_path(f"{at}.annotations", name))


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
