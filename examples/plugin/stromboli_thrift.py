"""Thrift: pods go to cheap nodes first, and nodes that are to be returned are drained.

A label states the price of a node, in any currency. A node without one could cost anything, so it counts as the most
expensive.
"""

import numpy as np

from stromboli.cluster import Node, Status
from stromboli.scheduling.configuration.arguments import Arguments
from stromboli.scheduling.plugin import Action, Plugin
from stromboli.scheduling.session import Session


class Cheapest(Plugin):
    """The cheapest node scores 100 times the weight, the most expensive one 0."""

    name = "cheapest"

    def __init__(self, arguments: Arguments) -> None:
        self.label = arguments.text("label", "example.com/price")
        self.weight = arguments.number("weight", 10, minimum=0)

    def open(self, session: Session) -> None:
        prices = np.array([self.price(node) for node in session.nodes.nodes])
        known = prices[np.isfinite(prices)]
        if known.size and known.max() > known.min():
            cheapness = (known.max() - np.minimum(prices, known.max())) / (known.max() - known.min())
            scores = 100 * self.weight * cheapness
            session.add_score(lambda task: scores.__getitem__)

    def price(self, node: Node) -> float:
        try:
            stated = float(node.labels.get(self.label, "inf"))
        except ValueError:
            return np.inf
        return stated if stated >= 0 else np.inf  # "nan" is no price either


class GiveBack(Action):
    """Evicts pods from nodes with a label, so that they can be returned; cordon them first."""

    name = "give_back"

    def __init__(self, arguments: Arguments) -> None:
        self.label = arguments.text("label", "example.com/give-back")

    def execute(self, session: Session) -> None:
        statement = session.statement()
        for node in session.nodes.nodes:
            if self.label in node.labels and not node.schedulable:
                for task in sorted(node.tasks.values(), key=lambda task: task.key):
                    if task.status is Status.RUNNING and task.preemptable:
                        statement.evict(task, reason="GivenBack", message=f"Node {node.name} is to be returned.")
        statement.commit()
