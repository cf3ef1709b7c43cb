"""The domains of the topology, as the lock worker sees them: which nodes each has.

They are looked up again only when a HyperNode, a label or a node has changed: nodes report their condition all the
time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stromboli.api import HyperNode, Node
from stromboli.cluster.topology import Topology

from .whole_domains import Domains


class KnownDomains:
    def __init__(self) -> None:
        self._seen: tuple[object, ...] = ()
        self._domains: Domains = np.zeros((0, 0), dtype=np.bool_)

    def of(self, nodes: Sequence[Node], hyper_nodes: Sequence[HyperNode], keys: tuple[str, ...]) -> Domains:
        """`keys`: labels of nodes that make domains where there are no HyperNodes."""
        names = [(node.metadata.name, node.metadata.labels) for node in nodes]
        seen = (names, [(one.metadata.name, one.spec) for one in hyper_nodes], keys)
        if seen != self._seen:
            topology = Topology(lambda: names)
            for one in hyper_nodes:
                topology.apply(one)
            tree = topology.tree(keys)
            self._domains = np.zeros((len(tree.domains), len(nodes)), dtype=np.bool_)
            for domain in tree.domains:
                self._domains[domain.index, domain.rows] = True
            self._seen = seen
        return self._domains
