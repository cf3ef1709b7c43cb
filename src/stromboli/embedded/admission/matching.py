"""Which requests a policy is about."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from stromboli.embedded.kinds import Object, ResourceType, dig
from stromboli.embedded.selectors import matches

from .request import Review

Versions = Callable[[ResourceType], Sequence[str]]
"""The served versions of a resource."""

GROUP: Final = "admissionregistration.k8s.io"


def matched_version(constraints: Object, review: Review, namespace: Object | None, versions: Versions) -> str:
    """The version in which a policy sees the object of a request; "" if it is not about it."""
    if review.type.group == GROUP:
        return ""  # nobody must be able to lock themselves out
    exact = constraints.get("matchPolicy") == "Exact"
    rules = constraints.get("resourceRules") or []
    version = _version(rules, review, versions, exact=exact) if rules else review.type.version
    if not version or _version(constraints.get("excludeResourceRules") or [], review, versions, exact=exact):
        return ""
    if not _selected_namespace(constraints.get("namespaceSelector"), review, namespace):
        return ""
    return version if _selected_object(constraints.get("objectSelector"), review) else ""


def _version(rules: Sequence[Object], review: Review, versions: Versions, *, exact: bool) -> str:
    for rule in rules:
        if _fits(rule, review, review.type.version):
            return review.type.version
    if not exact:
        for rule in rules:
            for other in versions(review.type):
                if _fits(rule, review, other):
                    return other
    return ""


def _fits(rule: Object, review: Review, version: str) -> bool:
    names = rule.get("resourceNames") or ()
    return (
        _has(rule.get("apiGroups"), review.type.group)
        and _has(rule.get("apiVersions"), version)
        and _has(rule.get("operations"), review.operation)
        and _has_resource(rule.get("resources") or (), review)
        and (not names or review.name in names)
        and _in_scope(rule.get("scope", "*"), review.type)
    )


def _has(listed: Sequence[str] | None, wanted: str) -> bool:
    return listed is not None and (wanted in listed or "*" in listed)


def _has_resource(listed: Sequence[str], review: Review) -> bool:
    for one in listed:
        resource, _, subresource = one.partition("/")
        is_for_it = subresource in (review.subresource, "*")
        if is_for_it and resource in ("*", review.type.plural):
            return True
    return False


def _in_scope(scope: str, type: ResourceType) -> bool:
    # A namespace is not in one.
    return scope == "*" or (scope == "Namespaced") == type.namespaced


def _selected_namespace(selector: Object | None, review: Review, namespace: Object | None) -> bool:
    if not selector:
        return True
    if review.type.resource == "namespaces":
        namespace = review.object or review.old
    elif not review.type.namespaced:
        return True
    return matches(selector, dig(namespace, "metadata", "labels", default={}))


def _selected_object(selector: Object | None, review: Review) -> bool:
    if not selector:
        return True
    either = [one for one in (review.object, review.old) if one is not None]
    return any(matches(selector, dig(one, "metadata", "labels", default={})) for one in either)
