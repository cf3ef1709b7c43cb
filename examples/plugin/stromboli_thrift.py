"""Thrift: pods go to cheap nodes first, and nodes that are to be returned are drained.

A label states the price of a node, in any currency. A node without one could cost anything, so it counts as the most
expensive.
"""

import numpy as np

from stromboli.cluster import Job, Node, Status, Task
from stromboli.descheduling import BalancePlugin, Run
from stromboli.scheduling.callbacks import DependsOn, Scope
from stromboli.scheduling.configuration import Arguments
from stromboli.scheduling.plugin import Action, Plugin
from stromboli.scheduling.session import Session

PRICE = "example.com/price"
LIMIT = "example.com/price-limit"


class Prices:
    """State of one session: what each node costs. The plugin and the action below share it."""

    def __init__(self, session: Session) -> None:
        self.by_row = np.array([price(node) for node in session.nodes.nodes])

    def cheapness(self) -> np.ndarray:
        """By row: 1 for the cheapest node, 0 for the most expensive one."""
        known = self.by_row[np.isfinite(self.by_row)]
        if not known.size or known.max() == known.min():
            return np.zeros(len(self.by_row))
        return (known.max() - np.minimum(self.by_row, known.max())) / (known.max() - known.min())


def price(node: Node) -> float:
    return amount(node.labels.get(PRICE, ""))


def amount(text: str) -> float:
    """What is no price could be anything."""
    try:
        stated = float(text)
    except ValueError:
        return np.inf
    return stated if stated >= 0 else np.inf  # "nan" is no price either


class Cheapest(Plugin):
    """The cheapest node scores 100 times the weight, the most expensive one 0."""

    name = "cheapest"

    def __init__(self, arguments: Arguments) -> None:
        self.weight = arguments.number("weight", 10, minimum=0)

    def open(self, session: Session) -> None:
        scores = 100 * self.weight * session.state(Prices).cheapness()
        session.add_score(lambda task: scores.__getitem__, depends_on=DependsOn.SHAPE, scope=Scope.STATIC)
        session.add_node_order_on_resource(lambda task: scores, depends_on=DependsOn.SHAPE)


class PriceLimit(Plugin):
    """A pod with an annotation runs on no node that costs more than it says."""

    name = "price_limit"

    def open(self, session: Session) -> None:
        session.add_node_filter(self.check)

    def check(self, task: Task, node: Node) -> str | None:
        limit = task.pod.metadata.annotations.get(LIMIT)
        if limit is None or price(node) <= amount(limit):
            return None
        return f"costs more than {limit}"


class ShortLoans(Plugin):
    """Only jobs with an annotation borrow: the others might run for days."""

    name = "short_loans"

    def __init__(self, arguments: Arguments) -> None:
        self.annotation = arguments.text("annotation", "example.com/short")

    def open(self, session: Session) -> None:
        session.add_backfill_eligible(self.is_short)

    def is_short(self, job: Job) -> bool:
        return all(self.annotation in task.pod.metadata.annotations for task in job.tasks.values())


class GiveBack(Action):
    """Evicts pods from nodes with a label, so that they can be returned; cordon them first."""

    name = "give_back"

    def __init__(self, arguments: Arguments) -> None:
        self.label = arguments.text("label", "example.com/give-back")

    def execute(self, session: Session) -> None:
        prices = session.state(Prices).by_row
        statement = session.statement()
        for node in sorted(session.nodes.nodes, key=lambda node: -prices[node.row]):  # the most expensive one first
            if self.label in node.labels and not node.schedulable:
                for task in sorted(node.tasks.values(), key=lambda task: task.key):
                    if task.status is Status.RUNNING and task.preemptable:
                        statement.evict(task, reason="GivenBack", message=f"Node {node.name} is to be returned.")
        statement.commit()


class GoCheap(BalancePlugin):
    """The descheduler moves pods to cheaper nodes that have room for them now, from the most expensive node first."""

    name = "GoCheap"

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self.cooldown = arguments.duration("coolDownTime", 600, minimum=0)

    def balance(self, run: Run) -> None:
        for source in sorted(run.view.nodes.nodes, key=lambda node: -price(node)):
            if run.view.sources[source.row] and run.may_be_source(source.row):
                for task in run.view.tasks_on(source):
                    if run.refusal(task) is None:
                        self.move(run, task, source)

    def move(self, run: Run, task: Task, source: Node) -> None:
        mark = run.mark
        rows = np.flatnonzero(run.open_targets & run.view.rows_for(task))
        for target in sorted((run.view.nodes.nodes[row] for row in rows), key=price):
            if price(target) < price(source) and run.try_move(task, target, by=self.name):
                goal = f"uses node {target.name} instead of {source.name}, which costs more"
                run.accept(mark, plugin=self.name, subject=task.key, goal=goal, cooldown=self.cooldown)
                return
