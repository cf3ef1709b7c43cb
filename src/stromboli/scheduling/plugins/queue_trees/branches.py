"""The scaled share of a branch in a tree of queues.

`hierarchy` explains why unsaturated children are scaled down; this module has the arithmetic. The children of a branch
(jobs below a queue; queues and other branches above that) are members of *pools* while they are hungry, that is, not
saturated. The others are *settled*:

    what a branch has = what the settled have + smallest share × the profiles in pools

A profile is what a member has, divided by its share, so its largest entry is 1; smallest share × profile is the member
scaled down to the smallest share in all pools. Sums are kept per pool: a change of one member costs the same in a queue
of three jobs and of three thousand. In a job of equal pods not even the sum of the profiles changes.

The jobs of a queue are pooled by the resources that they need, because they all become saturated at once when one of
these runs out; then the whole pool counts as settled. Amounts are shares of the cluster, by column. All numbers are
exact.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from fractions import Fraction

from stromboli.api import names
from stromboli.api.quantity import QuantityError, parse_quantity
from stromboli.cluster import Queue

Number = Fraction | int
Step = tuple[bool, Number]  # (saturated, share / weight)


class Leaf:
    """A job. It is saturated when it has all that it requests of some resource."""

    def __init__(self, branch: Branch, asked: list[int]) -> None:
        self.branch = branch
        self.asked = asked
        self.needs = sum(1 << column for column, amount in enumerate(asked) if amount > 0)  # as bits
        self.pool = branch.pool(self.needs)
        self.amounts = [0] * len(asked)
        self.share = 0
        self.profile: Sequence[Number] = self.amounts
        self.hungry = False

    def has(self, amounts: list[int]) -> None:
        """Set what the job has now."""
        weighed = self.profile if self.hungry else None
        if self.hungry:
            self.pool.leave(self.share, self.amounts)
        share = max(amounts)
        grew_evenly = all(now * self.share == then * share for now, then in zip(amounts, self.amounts, strict=True))
        if not (share and self.share and grew_evenly):
            self.profile = profile_of(amounts, share)
        self.amounts, self.share = amounts, share
        self.hungry = bool(self.needs) and not any(0 < a <= has for a, has in zip(self.asked, amounts, strict=True))
        if self.hungry:
            self.pool.enter(share, amounts)
        if (profile := self.profile if self.hungry else None) is not weighed:
            if weighed is not None:
                self.pool.weigh(weighed, -1)
            if profile is not None:
                self.pool.weigh(profile, +1)
        for branch in self.branch.path:
            branch.updated_at = None


class Pool:
    """Sums over hungry members. Those that have nothing yet are counted, but add nothing."""

    def __init__(self, width: int) -> None:
        self.count = 0
        self.shares: list[Number] = []  # of members that have something, smallest first
        self.amounts = [0] * width  # of jobs; branches are subtracted from their parent's `settled` instead
        self.profile: list[Number] = [0] * width

    def enter(self, share: Number, amounts: Sequence[int] = ()) -> None:
        self.count += 1
        if share:
            insort(self.shares, share)
        for column, amount in enumerate(amounts):
            self.amounts[column] += amount

    def leave(self, share: Number, amounts: Sequence[int] = ()) -> None:
        self.count -= 1
        if share:
            del self.shares[bisect_left(self.shares, share)]
        for column, amount in enumerate(amounts):
            self.amounts[column] -= amount

    def weigh(self, profile: Sequence[Number], sign: int) -> None:
        for column, part in enumerate(profile):
            if part:
                self.profile[column] += sign * part


class Branch:
    """A node of the tree below the root: a queue with its jobs, or an inner node with other branches."""

    def __init__(self, width: int, weight: Fraction, above: tuple[Branch, ...], queue: Queue | None) -> None:
        self.width = width
        self.weight = weight
        self.path = (*above, self)  # from the child of root down to itself
        self.queue = queue
        self.children: list[Branch] = []
        self.pools: dict[int, Pool] = {}  # of jobs, by the resources they need; of branches, at 0
        self.settled: list[Number] = [0] * width  # what is in no pool; for a queue: all it has
        self.simulated: list[int] | None = None  # what a simulated move adds
        self.updated_at: tuple[int, int] | None = None  # None: something below has changed since
        self.amounts: list[Number] = [0] * width
        self.share: Number = 0
        self.profile: Sequence[Number] = ()
        self.hungry = False
        self.standing: Step = (True, 0)

    def pool(self, needs: int) -> Pool:
        if needs not in self.pools:
            self.pools[needs] = Pool(self.width)
        return self.pools[needs]

    def take_out(self, child: Branch) -> None:
        if child.hungry:
            self.pool(0).leave(child.share)
            self.pool(0).weigh(child.profile, -1)
        else:
            self._settle(child, -1)

    def put_in(self, child: Branch) -> None:
        if child.hungry:
            child.profile = profile_of(child.amounts, child.share)
            self.pool(0).enter(child.share)
            self.pool(0).weigh(child.profile, +1)
        else:
            self._settle(child, +1)

    def _settle(self, child: Branch, sign: int) -> None:
        for column, amount in enumerate(child.amounts):
            if amount:
                self.settled[column] += sign * amount

    def update(self, exhausted: int) -> None:
        """Compute the branch's share again. `exhausted`: the resources of which nothing is left, as bits."""
        amounts = [*self.settled]
        hungry = [pool for needs, pool in self.pools.items() if pool.count and not needs & exhausted]
        poorest = min((pool.shares[0] for pool in hungry if pool.shares), default=0)
        for pool in hungry:
            for column, parts in enumerate(pool.profile):
                if parts:
                    amounts[column] += poorest * parts - pool.amounts[column]
        self.amounts, self.share, self.hungry = amounts, max(amounts), bool(hungry)
        value = self.share / self.weight
        # Integers compare several times as fast as fractions.
        self.standing = (not hungry, value.numerator if value.denominator == 1 else value)


def profile_of(amounts: Sequence[Number], share: Number) -> list[Number]:
    return [Fraction(amount, share) if amount and amount != share else int(amount > 0) for amount in amounts]


def place_of(queue: Queue) -> tuple[tuple[str, ...], tuple[Fraction, ...]]:
    """The steps from the root down to a queue, and their weights."""
    annotations = {} if queue.object is None else queue.object.metadata.annotations
    root, *steps = annotations.get(names.HIERARCHY, "").split("/")
    if root != names.ROOT_QUEUE or not steps or "" in steps:
        return (own_step(queue),), (Fraction(1),)
    written = annotations.get(names.HIERARCHY_WEIGHTS, "").split("/")[1:]
    weights = [_weight(text) for text in written[: len(steps)]]
    return tuple(steps), (*weights, *[Fraction(1)] * (len(steps) - len(weights)))


def own_step(queue: Queue) -> str:
    """A step that no other path can contain."""
    return f"/{queue.name}"


def parting(one: Branch, other: Branch) -> tuple[Branch, Branch]:
    """The branches of two queues just below their last common branch."""
    return next((a, b) for a, b in zip(one.path, other.path, strict=False) if a is not b)


def _weight(text: str) -> Fraction:
    try:
        return max(parse_quantity(text), Fraction(1))
    except QuantityError:
        return Fraction(1)
