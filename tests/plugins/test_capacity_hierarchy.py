"""Queues below queues: limits that hold for whole families, the order among relatives, and trees that are none (CA11).

The tree of most cases, in CPUs:

    root ── eng ── dev
         │      └─ ops
         └─ sci ── bio
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from builders import GPU, cluster, group, node, pod, pods, queue, session
from builders import plugin as part
from oracles.stories import Story
from stromboli.api import KObject, Queue
from stromboli.cluster import Cluster
from stromboli.scheduling.callbacks import Refusal
from stromboli.scheduling.configuration.configuration_file import PluginOption
from stromboli.scheduling.session import Session


def below(parent: str, name: str, **facts: object) -> Queue:
    made = queue(name, **facts)  # type: ignore[arg-type]
    return replace(made, spec=replace(made.spec, parent=parent))


def hierarchy(levels: int = 0) -> PluginOption:
    option = part("capacity", {"ancestorReclaimLevel": levels}, hierarchy=True)
    assert isinstance(option, PluginOption)
    return option


def opened(*objects: KObject | Iterable[KObject]) -> Session:
    return session(cluster(*objects), tiers=[[hierarchy()]])


def story(*objects: KObject | Iterable[KObject], actions: str = "reclaim, allocate", levels: int = 0) -> Story:
    tiers = [["priority", "gang", "conformance"], [hierarchy(levels), "predicates", "nodeorder"]]
    return Story(*objects, actions=actions, tiers=tiers).run()


def holding(name: str, *sizes: object, where: str = "n1", resource: str = "cpu") -> list[KObject]:
    """A job of a queue, with pods of these sizes that may go one by one."""
    running = [pod(f"{name}-{i}", group=name, node=where, **{resource: n}) for i, n in enumerate(sizes)]  # type: ignore[arg-type]
    return [group(name, queue=name, min_member=0), *running]


def asked(current: Session, **amounts: int) -> object:
    return current.axis.vector({GPU if name == "gpu" else name: n for name, n in amounts.items()})


def limit(current: Session, name: str, resource: str = "cpu") -> int:
    """The most a queue may take, found by asking."""
    own, low, high = current.queues[name], 0, 1_000_000  # type: ignore[index]
    while low < high:
        middle = (low + high + 1) // 2
        if current.allocatable(own, asked(current, **{resource: middle})) is None:  # type: ignore[arg-type]
            low = middle
        else:
            high = middle - 1
    return low


def deserved(current: Session, resource: str = "cpu") -> dict[str, int]:
    column = current.axis.index[resource]
    return {name: int(vector[column]) for name, vector in current.deserved.items() if vector[column]}


# -- who takes pods, and how many (CA11) ------------------------------------------------------------------------------


def test_ca11_only_leaves_take_pods() -> None:
    told = story(
        node("n1", cpu=4),
        below("root", "eng"),
        below("eng", "dev"),
        group("inner", queue="eng"),
        group("leaf", queue="dev"),
        pod("i", group="inner", cpu=1),
        pod("l", group="leaf", cpu=1),
    )
    assert told.binds == {"l": "n1"}
    assert told.why("i") == "QueueNotLeaf"
    assert "only leaf queues take pods" in told.message("i")


def test_ca11_the_root_takes_no_pods_and_inner_queues_let_nobody_in() -> None:
    told = story(
        node("n1", cpu=4),
        queue("root"),
        below("root", "eng"),
        below("eng", "dev"),
        group("top", queue="root", phase="Pending", min_resources={"cpu": 1}),
        group("inner", queue="eng", phase="Pending", min_resources={"cpu": 1}),
        group("leaf", queue="dev", phase="Pending", min_resources={"cpu": 1}),
        actions="enqueue",
    )
    assert {name: told.phase(name) for name in ("top", "inner", "leaf")} == {
        "top": "Pending", "inner": "Pending", "leaf": "Inqueue",
    }  # fmt: skip


# Without the hierarchy, parents mean nothing: eng takes pods itself, and its 2 CPUs do not limit dev.
def test_without_the_hierarchy_parents_mean_nothing() -> None:
    known = cluster(node("n1", cpu=4), below("root", "eng", capability={"cpu": 2}), below("eng", "dev"))
    current = session(known, tiers=[["capacity"]])
    for name, most in (("eng", 2000), ("dev", 4000)):
        own = current.queues[name]  # type: ignore[index]
        assert current.allocatable(own, asked(current, cpu=most)) is None  # type: ignore[arg-type]


# eng may have 4 and has 3 (2 in dev, 1 in ops). dev may have 3: it could take 1, and takes no 2, because of itself.
# ops may have 8: of 2 more it is eng that has too little left.
def test_ca11_an_ancestor_that_is_full_is_named() -> None:
    current = opened(
        node("n1", cpu=16),
        below("root", "eng", capability={"cpu": 4}),
        below("eng", "dev", capability={"cpu": 3}),
        below("eng", "ops", capability={"cpu": 8}),
        holding("dev", 2),
        holding("ops", 1),
    )
    dev, ops = current.queues["dev"], current.queues["ops"]  # type: ignore[index]
    one, two = asked(current, cpu=1000), asked(current, cpu=2000)
    assert current.allocatable(dev, one) is None  # type: ignore[arg-type]
    assert current.allocatable(ops, one) is None  # type: ignore[arg-type]
    assert current.allocatable(dev, two) == Refusal(  # type: ignore[arg-type]
        "QueueOverQuota", resource="cpu", need=2000, have=2000, total=3000, subject="dev"
    )
    assert current.allocatable(ops, two) == Refusal(  # type: ignore[arg-type]
        "QueueOverQuota", resource="cpu", need=2000, have=3000, total=4000, subject="eng"
    )


# The same while pods are placed: eng may have 3, its two leaves want 2 each, and every pod counts at once.
def test_ca11_a_family_gets_no_more_than_it_may_have() -> None:
    told = story(
        node("n1", cpu=16),
        below("root", "eng", capability={"cpu": 3}),
        below("eng", "dev"),
        below("eng", "ops"),
        group("dev", queue="dev"),
        group("ops", queue="ops"),
        pods("d", 2, group="dev", cpu=1),
        pods("o", 2, group="ops", cpu=1),
    )
    assert len(told.binds) == 3
    assert told.cores("dev") + told.cores("ops") == 3


# eng may have 4, has 1 and promised 2 to the first job: the second, of 2, has to wait, though its own queue is empty.
def test_ca11_an_ancestor_that_is_full_lets_nobody_in() -> None:
    told = story(
        node("n1", cpu=16),
        below("root", "eng", capability={"cpu": 4}),
        below("eng", "dev"),
        below("eng", "ops"),
        holding("dev", 1),
        group("first", queue="dev", phase="Pending", min_resources={"cpu": 2}),
        group("second", queue="ops", phase="Pending", min_resources={"cpu": 2}),
        pod("f", group="first", cpu=2),
        pod("s", group="second", cpu=2),
        actions="enqueue, allocate",
    )
    assert told.phase("second") == "Pending"
    assert told.why("s") == "QueueOverQuota"
    assert told.message("s").startswith("Queue eng would exceed its quota:")


# As before, but ops deserves 2 and dev 2, and dev holds all 4: ops is let in, since it can take its 2 back.
def test_who_may_take_back_is_let_in_though_the_family_is_full() -> None:
    told = story(
        node("n1", cpu=16),
        below("root", "eng", capability={"cpu": 4}),
        below("eng", "dev", deserved={"cpu": 2}),
        below("eng", "ops", deserved={"cpu": 2}),
        holding("dev", 1, 1, 1, 1),
        group("ops", queue="ops", phase="Pending", min_resources={"cpu": 2}, min_member=2),
        pods("w", 2, group="ops", cpu=1),
        actions="enqueue, reclaim, allocate",
    )
    assert len(told.evicted) == 2
    told.carry_out()
    told.run()
    assert sorted(told.binds) == ["w-0", "w-1"]


# eng: 8 CPUs, 4 GPUs and no word on memory. dev states 2 CPUs; of GPUs it may have what eng may have, and of memory
# what the cluster has.
def test_ca11_a_limit_that_is_not_stated_is_the_parents() -> None:
    current = opened(
        node("n1", cpu=16, memory=1000, gpu=8),
        below("root", "eng", capability={"cpu": 8, GPU: 4}),
        below("eng", "dev", capability={"cpu": 2}),
        below("eng", "ops"),
        below("eng", "qa", capability={GPU: 9}),
    )
    assert [limit(current, name) for name in ("dev", "ops", "qa")] == [2000, 8000, 8000]
    assert [limit(current, name, "gpu") for name in ("dev", "ops", "qa")] == [4, 4, 4]
    assert limit(current, "dev", "memory") == 1_000_000  # nobody's limit: nodes say what there is


# Of 20, sci is guaranteed 4, so eng may have 16. In eng, dev is guaranteed 5 and ops 3: dev may have 16 - 3 = 13, ops
# 16 - 5 = 11. eng states no guarantee, so it is guaranteed the 8 of its children, and sci may have 12.
def test_guarantees_are_kept_free_of_brothers_and_cousins() -> None:
    current = opened(
        node("n1", cpu=20),
        below("root", "eng"),
        below("eng", "dev", guarantee={"cpu": 5}),
        below("eng", "ops", guarantee={"cpu": 3}),
        below("root", "sci", guarantee={"cpu": 4}),
        below("sci", "bio"),
    )
    assert [limit(current, name) for name in ("dev", "ops", "bio")] == [13_000, 11_000, 12_000]


# eng is guaranteed 4 and may have 6; its children state 5 and 3. By equal weights they get 2 and 2; each may have 6
# less the other's 2. If eng states no guarantee it has the 8 of its children, of which 6 is all it may have: 3 and 3.
@pytest.mark.parametrize(("stated", "eng", "each"), [({"cpu": 4}, 4000, 4000), (None, 6000, 3000)])
def test_ca11_guarantees_beyond_the_parents_are_cut(stated: dict[str, int] | None, eng: int, each: int) -> None:
    current = opened(
        node("n1", cpu=16),
        below("root", "eng", guarantee=stated, capability={"cpu": 6}),
        below("eng", "dev", guarantee={"cpu": 5}),
        below("eng", "ops", guarantee={"cpu": 3}),
    )
    assert [limit(current, name) for name in ("dev", "ops")] == [each, each]
    assert limit(current, "default") == 16_000 - eng


# eng deserves 6; its children state 6 and 4, weights 1 and 2: the level is 2 for each unit of weight, 2 and 4. sci
# states nothing and deserves the 3 of its child.
def test_deserved_amounts_beyond_the_parents_are_divided_by_weight() -> None:
    current = opened(
        node("n1", cpu=16),
        below("root", "eng", deserved={"cpu": 6}),
        below("eng", "dev", deserved={"cpu": 6}),
        below("eng", "ops", deserved={"cpu": 4}, weight=2),
        below("root", "sci"),
        below("sci", "bio", deserved={"cpu": 3}),
    )
    assert deserved(current) == {"eng": 6000, "dev": 2000, "ops": 4000, "sci": 3000, "bio": 3000}


# -- trees that are none ----------------------------------------------------------------------------------------------


# a and b are each other's parents and c its own: all stand below the root. d is below a, as it says; e's parent is
# gone. a may have 3, and so may d.
def test_circles_and_orphans_stand_below_the_root() -> None:
    current = opened(
        node("n1", cpu=8),
        below("b", "a", capability={"cpu": 3}),
        below("a", "b", capability={"cpu": 2}),
        below("c", "c"),
        below("a", "d"),
        below("nowhere", "e"),
    )
    assert limit(current, "b") == 2000
    assert limit(current, "d") == 3000
    for name in ("c", "e"):
        assert current.allocatable(current.queues[name], asked(current, cpu=8000)) is None  # type: ignore[arg-type, index]
    refusal = current.allocatable(current.queues["a"], asked(current, cpu=1))  # type: ignore[arg-type, index]
    assert refusal == Refusal("QueueNotLeaf", subject="a")


def test_a_long_line_of_parents_is_no_trouble() -> None:
    line = [below(f"q{n - 1:04}" if n else "root", f"q{n:04}", capability={"cpu": 2}) for n in range(1500)]
    current = opened(node("n1", cpu=4), line)
    assert limit(current, "q1499") == 2000


# eng is closed, and the controller has not got round to dev yet.
def test_below_a_closed_queue_nothing_is_placed() -> None:
    current = opened(node("n1", cpu=4), below("root", "eng", state="Closed"), below("eng", "dev"))
    refusal = current.allocatable(current.queues["dev"], asked(current, cpu=1))  # type: ignore[arg-type, index]
    assert refusal == Refusal("QueueClosed", subject="eng")


# -- order ------------------------------------------------------------------------------------------------------------


# eng has 5 of 8 (dev 1 of 4, ops 4 of 4), sci 3 of 4 (bio 3 of 4). By themselves dev (1/4) is before bio (3/4) before
# ops (4/4); by their families, eng (5/8) is before sci (3/4): so is all of it.
def test_queues_are_compared_where_their_lines_part() -> None:
    current = opened(
        node("n1", cpu=16),
        below("root", "sci", deserved={"cpu": 4}),
        below("sci", "bio", deserved={"cpu": 4}),
        below("root", "eng", deserved={"cpu": 8}),
        below("eng", "ops", deserved={"cpu": 4}),
        below("eng", "dev", deserved={"cpu": 4}),
        holding("dev", 1),
        holding("ops", 4),
        holding("bio", 3),
    )
    ordered = [own.name for own in sorted(current.queues.values(), key=current.queue_key)]
    assert [name for name in ordered if name in ("dev", "ops", "bio")] == ["dev", "ops", "bio"]


def family(*, dev: int, ops: int, bio: int) -> list[KObject]:
    """Full: 12 CPUs, of which each leaf deserves 4 and has what is said."""
    return [
        node("n1", cpu=12),
        below("root", "eng", deserved={"cpu": 8}),
        below("eng", "dev", deserved={"cpu": 4}),
        below("eng", "ops", deserved={"cpu": 4}),
        below("root", "sci", deserved={"cpu": 4}),
        below("sci", "bio", deserved={"cpu": 4}),
        *holding("dev", *[1] * dev),
        *holding("ops", *[1] * ops),
        *holding("bio", *[1] * bio),
    ]


# bio has borrowed 2, ops 1; dev takes from its brother first, and when ops has no more than its 4, from its cousin.
@pytest.mark.parametrize(("wants", "evicted"), [(1, {"ops": 1}), (2, {"ops": 1, "bio": 1})])
def test_the_nearest_relatives_give_back_first(wants: int, evicted: dict[str, int]) -> None:
    claims = [group("claim", queue="dev", min_member=wants), *pods("w", wants, group="claim", cpu=1)]
    told = story(*family(dev=1, ops=5, bio=6), *claims)
    found: dict[str, int] = {}
    for name in told.evicted:
        owner = name.rpartition("-")[0]
        found[owner] = found.get(owner, 0) + 1
    assert found == evicted


# -- ancestors that take part -----------------------------------------------------------------------------------------


# bio deserves 4 and has 6, but sci deserves 8 and has no more than that. Level 0: bio gives back what it borrowed.
# Level 1: sci has not borrowed, so bio is left in peace, for another parent's child. Its own sister chem gets its due.
@pytest.mark.parametrize(
    ("levels", "claimant", "evictions"), [(0, "dev", 1), (1, "dev", 0), (1, "chem", 1), (2, "chem", 1)]
)
def test_with_levels_a_family_that_has_not_borrowed_keeps_its_pods(levels: int, claimant: str, evictions: int) -> None:
    told = story(
        node("n1", cpu=6),
        below("root", "eng", deserved={"cpu": 4}),
        below("eng", "dev", deserved={"cpu": 4}),
        below("root", "sci", deserved={"cpu": 8}),
        below("sci", "bio", deserved={"cpu": 4}),
        below("sci", "chem", deserved={"cpu": 2}),
        holding("bio", *[1] * 6),
        group("claim", queue=claimant),
        pod("w", group="claim", cpu=1),
        levels=levels,
    )
    assert len(told.evicted) == evictions


# dev states nothing, eng deserves 4 and has none, bio borrowed all 6. On its own dev has no claim; with level 1 it
# claims on behalf of eng: 4 pods, and not a fifth. Not so from ops, which is of eng itself.
@pytest.mark.parametrize(("levels", "evictions"), [(0, 0), (1, 4)])
def test_with_levels_a_queue_claims_on_behalf_of_its_parent(levels: int, evictions: int) -> None:
    told = story(
        node("n1", cpu=6),
        below("root", "eng", deserved={"cpu": 4}),
        below("eng", "dev"),
        below("eng", "ops"),
        below("root", "sci", deserved={"cpu": 2}),
        below("sci", "bio", deserved={"cpu": 2}),
        holding("bio", *[1] * 6),
        group("claim", queue="dev", min_member=1),
        pods("w", 6, group="claim", cpu=1),
        levels=levels,
    )
    assert len(told.evicted) == evictions
    told.carry_out(successors=True)
    assert told.live(20, successors=True) == 0


# eng deserves 4 and has 3: on its behalf dev could claim 1. But the 3 are of eng as well, in ops, and taking one there
# would leave eng where it is.
def test_no_claim_on_behalf_of_a_parent_inside_the_family() -> None:
    told = story(
        node("n1", cpu=4),
        below("root", "eng", deserved={"cpu": 4}),
        below("eng", "dev"),
        below("eng", "ops"),
        holding("ops", 1, 1, 1),
        pod("stranger", cpu=1, node="n1"),
        group("claim", queue="dev"),
        pod("w", group="claim", cpu=1),
        levels=1,
    )
    assert told.evicted == []


# eng deserves the 6 it has, all in ops, which deserves 4. dev deserves 1 and takes a pod of 2: eng has 5 then, as one
# comes in its stead, and lacks 1, no more than dev lacked.
def test_what_stays_in_the_family_is_no_loss_to_it() -> None:
    told = story(
        node("n1", cpu=6),
        below("root", "eng", deserved={"cpu": 6}),
        below("eng", "dev", deserved={"cpu": 1}),
        below("eng", "ops", deserved={"cpu": 4}),
        holding("ops", 2, 2, 2),
        group("claim", queue="dev"),
        pod("w", group="claim", cpu=1),
        levels=1,
    )
    assert len(told.evicted) == 1


# eng is guaranteed 3 and has 4, in dev, which deserves nothing by itself. bio deserves 2: it gets one and no more.
def test_a_family_is_not_taken_below_its_guarantee() -> None:
    told = story(
        node("n1", cpu=5),
        below("root", "eng", guarantee={"cpu": 3}),
        below("eng", "dev"),
        below("root", "sci", deserved={"cpu": 2}),
        below("sci", "bio", deserved={"cpu": 2}),
        holding("dev", 1, 1, 1, 1),
        pod("stranger", cpu=1, node="n1"),
        group("claim", queue="bio", min_member=1),
        pods("w", 2, group="claim", cpu=1),
    )
    assert len(told.evicted) == 1


# eng may have 2. Both leaves have two jobs of 1 outside; the first of dev counts as had once it is let in, so the first
# of ops is next.
def test_queues_are_let_in_by_turns() -> None:
    told = story(
        node("n1", cpu=8),
        below("root", "eng", capability={"cpu": 2}),
        below("eng", "dev", deserved={"cpu": 4}),
        below("eng", "ops", deserved={"cpu": 4}),
        [
            group(f"{name}{number}", queue=name, phase="Pending", min_resources={"cpu": 1})
            for name in ("dev", "ops")
            for number in (1, 2)
        ],
        actions="enqueue",
    )
    let_in = [name for name in ("dev1", "dev2", "ops1", "ops2") if told.phase(name) == "Inqueue"]
    assert let_in == ["dev1", "ops1"]


def test_books_of_families_are_right_after_every_move() -> None:
    """What a family has is asked before and after a placement in the same session: no stale sum may be used."""
    known: Cluster = cluster(
        node("n1", cpu=8),
        below("root", "eng", capability={"cpu": 2}),
        below("eng", "dev"),
        below("eng", "ops"),
        group("dev", queue="dev"),
        pod("d", group="dev", cpu=2),
    )
    current = session(known, tiers=[[hierarchy()]])
    ops, one = current.queues["ops"], asked(current, cpu=1000)  # type: ignore[index]
    assert current.allocatable(ops, one) is None  # type: ignore[arg-type]
    statement = current.statement()
    statement.allocate(known.tasks["default/d"], known.nodes["n1"])  # type: ignore[index]
    assert current.allocatable(ops, one) is not None  # type: ignore[arg-type]
    statement.discard()
    assert current.allocatable(ops, one) is None  # type: ignore[arg-type]
