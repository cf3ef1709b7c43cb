"""Which nodes the cluster has: equal ones by options, or those of a file with Node manifests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from stromboli.api import ApiError, Node, decode, warnings_about
from stromboli.errors import UserError
from stromboli.kube.client import Client
from stromboli.kube.hollow import HollowNodePool
from stromboli.simulation.scenario.yaml_documents import read_documents


@dataclass(frozen=True, slots=True)
class Machines:
    """Nodes of one size."""

    names: Sequence[str]
    capacity: dict[str, str | int | float]
    labels: dict[str, str] = field(default_factory=dict)
    taints: Sequence[dict[str, str]] = ()

    def pool(self, client: Client) -> HollowNodePool:
        return HollowNodePool(client, self.names, capacity=self.capacity, labels=self.labels, taints=self.taints)


def read_machines(path: Path) -> list[Machines]:
    """The nodes of a file, with equal ones together. Raises UserError."""
    groups: dict[str, list[Node]] = {}
    names: set[str] = set()
    for document in read_documents(str(path)):
        where = f"{path}, document {document.origin.number}"
        try:
            node = decode(document.content, where=where)
        except ApiError as error:
            raise UserError(str(error)) from None
        if not isinstance(node, Node):
            raise UserError(f"{where}: must be a Node, not a {node.kind}.")
        if node.metadata.name in names:
            raise UserError(f"{where}: the name {node.metadata.name} is used twice.")
        for message in warnings_about(node).values():
            click.echo(f"stromboli: warning: {where}: {message}", err=True)
        names.add(node.metadata.name)
        groups.setdefault(_size(node), []).append(node)
    if not names:
        raise UserError(f"{path}: has no nodes.")
    return [_machines(nodes) for nodes in groups.values()]


def _size(node: Node) -> str:
    size: list[Any] = [dict(node.status.allocatable or node.status.capacity), node.metadata.labels, _taints(node)]
    return json.dumps(size, sort_keys=True)


def _taints(node: Node) -> list[dict[str, str]]:
    return [{"key": one.key, "value": one.value, "effect": one.effect} for one in node.spec.taints]


def _machines(nodes: list[Node]) -> Machines:
    first = nodes[0]
    capacity = dict(first.status.allocatable or first.status.capacity)
    if "pods" not in capacity:
        capacity["pods"] = "110"
    return Machines([node.metadata.name for node in nodes], capacity, dict(first.metadata.labels), _taints(first))
