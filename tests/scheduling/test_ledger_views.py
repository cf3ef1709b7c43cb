"""A view says that an answer is stale exactly if what it depends on has changed since the last look."""

from __future__ import annotations

from builders import cluster, group, node, pod, queue, session
from stromboli.cluster import Cluster, JointView
from stromboli.cluster.holdings import LedgerViews
from stromboli.scheduling.operations.set_aside import give_up, set_aside
from stromboli.scheduling.session import Session


def world() -> Cluster:
    """Two nodes of four CPUs; a gang of two waits, and a pod runs on the second node."""
    waiting = [pod(f"ns/a-{number}", cpu=1, group="a") for number in range(2)]
    return cluster(
        node("n1", cpu=4), node("n2", cpu=4), queue("q"), group("ns/a", queue="q", min_member=2, phase="Inqueue"),
        waiting, group("ns/runs", queue="q", phase="Running"),
        pod("ns/runs-0", cpu=1, group="runs", node="n2", phase="Running"),
    )  # fmt: skip


def opened() -> tuple[Session, LedgerViews]:
    made = session(world(), tiers=[["priority", "gang", "predicates"]], actions=["allocate"])
    return made, made.ledger.views


def test_the_first_look_finds_that_all_may_have_changed() -> None:
    _, views = opened()
    rows = views.rows()
    assert rows.is_new
    assert rows.changed()
    assert not rows.is_new
    assert not rows.changed()


def test_what_was_only_tried_moves_and_settles_nothing() -> None:
    made, views = opened()
    rows, tasks, queues, settled = views.rows(), views.tasks(), views.queues(), views.settled()
    for view in (rows, tasks, queues, settled):
        view.renew()
    moment = views.moment()
    (job,) = made.waiting
    statement, task = made.statement(), made.pending_tasks(job)[0]
    assert statement.allocate(task, made.nodes.nodes[1])
    assert rows.unread() == [1]
    assert rows.news() == [1]
    assert rows.news() == []
    assert {one.key for one in tasks.news()} == {task.key}
    assert {one.name for one in queues.news()} == {"q"}
    assert not settled.changed()
    assert not moment.nothing_moved
    assert moment.nothing_settled
    statement.discard()
    assert rows.news() == [1]  # undone is moved again


def test_what_is_committed_is_settled() -> None:
    made, views = opened()
    moment, settled, freed = views.moment(), views.settled(), views.freed()
    settled.renew()
    freed.renew()
    (job,) = made.waiting
    statement = made.statement()
    for task in made.pending_tasks(job):
        assert statement.allocate(task, made.nodes.nodes[0])
    assert freed.is_current
    statement.commit()
    assert not moment.nothing_settled
    assert settled.changed()
    assert not settled.changed()


def test_an_eviction_frees_something() -> None:
    made, views = opened()
    freed = views.freed()
    freed.renew()
    (running,) = made.nodes.nodes[1].tasks.values()
    made.statement().evict(running, reason="Test", message="")
    assert not freed.is_current
    assert freed.changed()


def test_all_views_of_a_joint_view_look() -> None:
    """Else the second of them would find a change that the answer knows already."""
    made, views = opened()
    joint = JointView(views.rows(), views.queues())
    assert joint.changed()
    assert not joint.changed()
    (job,) = made.waiting
    assert made.statement().allocate(made.pending_tasks(job)[0], made.nodes.nodes[0])
    assert joint.changed()
    assert not joint.changed()


def test_views_of_what_is_settled_outlive_a_session() -> None:
    known = world()
    settled, nodes = known.ledger.views.settled(), known.ledger.views.nodes()
    session(known, tiers=[["gang"]], actions=["allocate"])
    settled.renew()
    nodes.renew()
    session(known, tiers=[["gang"]], actions=["allocate"])
    assert settled.is_current
    assert nodes.is_current


def test_each_step_makes_these_views_stale_and_no_others() -> None:
    """Where a view is not stale in time, jobs wait beside idle nodes."""
    made, views = opened()
    names = ("rows", "tasks", "queues", "reserved", "freed", "nodes", "settled")
    known = {name: getattr(views, name)() for name in names}

    def stale() -> str:
        found = [name for name, view in known.items() if not view.is_current]
        assert [name for name, view in known.items() if view.changed()] == found
        return " ".join(found)

    assert stale() == " ".join(names)
    assert stale() == ""
    (job,) = made.waiting
    statement, waits, last = made.statement(), made.pending_tasks(job)[0], made.nodes.nodes[1]
    (runs,) = last.tasks.values()
    # What is only tried settles nothing. To undo it may make room, whatever it was.
    for attempt in (statement.allocate, statement.pipeline):
        attempt(waits, last)
        assert stale() == "rows tasks queues"
        statement.discard()
        assert stale() == "rows tasks queues freed"
    statement.evict(runs, reason="Test", message="")
    assert stale() == "rows tasks queues freed"
    statement.spare(runs)
    assert stale() == "rows tasks queues freed"
    # Room that is set aside costs no share.
    set_aside(statement, waits, last)
    assert stale() == "rows tasks reserved"
    give_up(statement, waits)
    assert stale() == "rows tasks reserved freed"
    statement.discard()
    stale()
    # What is committed settles something, also if it only stays promised.
    statement.pipeline(waits, last)
    stale()
    statement.commit()
    assert stale() == "settled"
