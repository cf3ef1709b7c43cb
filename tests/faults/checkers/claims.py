"""Volumes: no pod is bound before its claims are, none to a node that its volume cannot be used on, and no volume is
given away twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from .truth import Document, Truth, name, uid

CLAIMS: Final = "persistentvolumeclaims"
VOLUMES: Final = "persistentvolumes"


class Claims:
    def __init__(self, truth: Truth, report: Callable[[str, str], None]) -> None:
        self._truth = truth
        self._report = report

    def committed(self, resource: str, before: Document | None, after: Document | None, writer: str) -> None:
        if after is None:
            return
        if resource == "pods" and after["spec"].get("nodeName"):
            if before is None or not before["spec"].get("nodeName"):
                self._bound(after, writer)
        elif resource == VOLUMES and before is not None:
            owners = _owner(before), _owner(after)
            if owners[0] and owners[1] and owners[0] != owners[1]:
                self._report("volumes", f"{writer} gives {name(after)} to {owners[1]}, and {owners[0]} had it")

    def _bound(self, pod: Document, writer: str) -> None:
        node = pod["spec"]["nodeName"]
        for claim in claims_of(self._truth, pod):
            volume = self._truth.of(VOLUMES).get(claim["spec"].get("volumeName", ""))
            if volume is None or _owner(volume) != uid(claim):
                self._report("volumes", f"{writer} binds {name(pod)} before its claim {name(claim)}")
            elif node not in _nodes(volume, node):
                self._report("volumes", f"{writer} binds {name(pod)} to {node}, and {name(volume)} is elsewhere")

    def compare(self) -> None:
        """At the end."""
        claims = {uid(claim): claim for claim in self._truth.of(CLAIMS).values()}
        for volume in self._truth.of(VOLUMES).values():
            claim = claims.get(_owner(volume))
            if claim is not None and claim["spec"].get("volumeName") != name(volume):
                self._report("volumes", f"{name(volume)} is kept for {name(claim)}, which does not use it")


def claims_of(truth: Truth, pod: Document) -> Iterator[Document]:
    for volume in pod["spec"].get("volumes") or ():
        source = volume.get("persistentVolumeClaim")
        found = source and truth.of(CLAIMS).get(f"{pod['metadata']['namespace']}/{source['claimName']}")
        if found:
            yield found


def _owner(volume: Document) -> str:
    return str((volume["spec"].get("claimRef") or {}).get("uid") or "")


def _nodes(volume: Document, otherwise: str) -> set[str]:
    """The nodes on which it can be used."""
    required = (volume["spec"].get("nodeAffinity") or {}).get("required") or {}
    terms = [one for term in required.get("nodeSelectorTerms") or () for one in term.get("matchExpressions") or ()]
    return {value for one in terms for value in one["values"]} if terms else {otherwise}
