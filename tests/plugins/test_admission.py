"""How many jobs are let in: the books of promises, and the two plugins that keep to them."""

from __future__ import annotations

import pytest

from builders import cluster, group, node, plugin, pod, pods, queue, session
from stromboli.cluster import Applied, Cluster, Job, Vector
from stromboli.scheduling.actions.enqueue import Enqueue
from stromboli.scheduling.callbacks import Refusal, Vote
from stromboli.scheduling.configuration.arguments import Arguments, ConfigurationError
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.plugin import Plugin
from stromboli.scheduling.plugins.overcommit import Overcommit
from stromboli.scheduling.registry import Registry
from stromboli.scheduling.session import Session
from stromboli.scheduling.sharing.admission_promises import AdmissionPromises


def job(known: Cluster, name: str) -> Job:
    return known.jobs[f"default/{name}"]  # type: ignore[index]


def enter(current: Session, known: Cluster, name: str) -> Refusal | None:
    """Have the enqueue action look at this job only; the reason it gives for keeping it out."""
    applicant = job(known, name)
    everybody, current.active = current.active, [applicant]
    Enqueue(Arguments()).execute(current)
    current.active = everybody
    return None if applicant.phase == "Inqueue" else current.notes.of(applicant).refusals[-1]


def cpu(amount: Vector) -> int:
    return int(amount[0])


# -- the books ----------------------------------------------------------------------------------------------------


# minResources 3 CPUs each:
#   pending   not let in, promised nothing
#   inqueue   1 of 3 runs                                     2 promised
#   running   2 run, the gang needs 2                         1 promised
#   short     1 runs, the gang needs 2: it is no longer let in as a gang        nothing
#   large     1 of 5 CPUs runs, the gang needs 2              nothing; 2 elastic
#   wide      5 run                                           2 elastic
#   free      states no minimum                               nothing, nor elastic
def test_promises_are_what_was_let_in_and_is_not_occupied() -> None:
    three = {"cpu": 3}
    known = cluster(
        node("n1", cpu=100),
        group("pending", phase="Pending", min_resources=three),
        group("inqueue", phase="Inqueue", min_resources=three),
        pod("i", group="inqueue", cpu=1, node="n1"),
        group("running", phase="Running", min_member=2, min_resources=three),
        pods("r", 2, group="running", cpu=1, node="n1"),
        group("short", phase="Running", min_member=2, min_resources=three),
        pod("s", group="short", cpu=1, node="n1"),
        group("large", phase="Running", min_member=2, min_resources=three),
        pod("l", group="large", cpu=5, node="n1"),
        group("wide", phase="Running", min_member=3, min_resources=three),
        pods("w", 5, group="wide", cpu=1, node="n1"),
        group("free", phase="Running"),
        pods("f", 4, group="free", cpu=1, node="n1"),
    )
    current = session(known)
    own = current.queues["default"]  # type: ignore[index]
    books = AdmissionPromises(current)
    assert cpu(books.promised(own)) == 2_000 + 1_000
    assert cpu(books.promised_everywhere()) == 3_000
    assert cpu(books.elastic(own)) == 4_000
    assert {str(one.key): cpu(books.missing(one)) for one in books.awaited()} == {
        "default/inqueue": 2_000, "default/running": 1_000, "default/wide": 0,
    }  # fmt: skip
    assert cpu(books.promised_in(own, "default")) == 3_000
    # 18 CPUs run. What was promised counts in the order of namespaces where jobs are let in, and only there.
    for books.admitting, held in ((False, 18_000), (True, 21_000)):
        in_namespace = books.held_in(own, "default")
        assert in_namespace is not None
        assert cpu(in_namespace) == cpu(books.held_by(own)) == held


# A gang of 3 with 3 CPUs, one of which is behind a gate: 2 are awaited, and 1 of those runs.
def test_gated_pods_are_not_waited_for() -> None:
    known = cluster(
        node("n1", cpu=100),
        group("g", min_member=3, min_resources={"cpu": 3}),
        pod("gated", group="g", cpu=1, gated=True),
        pod("waits", group="g", cpu=1),
        pod("runs", group="g", cpu=1, node="n1"),
    )
    current = session(known)
    assert cpu(AdmissionPromises(current).promised_everywhere()) == 1_000


# The bind is on its way: the pod occupies its room, and the promise is kept by that much.
def test_a_pod_that_is_being_bound_is_not_counted_twice() -> None:
    known = cluster(
        node("n1", cpu=4),
        group("a", min_member=3, min_resources={"cpu": 3}),
        pods("a", 3, group="a", cpu=1),
    )
    first = session(known)
    statement = first.statement()
    for number in range(3):
        statement.allocate(known.tasks[f"default/a-{number}"], known.nodes["n1"])  # type: ignore[index]
    statement.commit()
    second = session(known)
    own = second.queues["default"]  # type: ignore[index]
    assert cpu(own.allocated) == 3_000
    assert cpu(AdmissionPromises(second).promised(own)) == 0


# Placing pods after the books were made up moves their part from promised to occupied, at once.
def test_the_books_follow_the_session() -> None:
    known = cluster(
        node("n1", cpu=4),
        group("a", min_member=2, min_resources={"cpu": 2}),
        pods("a", 2, group="a", cpu=1),
    )
    current = session(known)
    books = AdmissionPromises(current)
    assert cpu(books.promised_everywhere()) == 2_000
    statement = current.statement()
    statement.allocate(known.tasks["default/a-0"], known.nodes["n1"])  # type: ignore[index]
    assert cpu(books.promised_everywhere()) == 1_000
    statement.discard()
    assert cpu(books.promised_everywhere()) == 2_000


@pytest.mark.parametrize("asked_before", [False, True])
def test_a_job_let_in_is_counted_once_whenever_the_books_are_made_up(asked_before: bool) -> None:
    known = cluster(
        node("n1", cpu=9),
        group("a", phase="Pending", min_resources={"cpu": 2}),
        group("b"),
        pod("b", group="b", cpu=1),
    )
    current = session(known)
    books = AdmissionPromises(current)
    if asked_before:
        assert cpu(books.promised_everywhere()) == 0
    books.admit(job(known, "a"))
    job(known, "a").phase = "Inqueue"
    assert cpu(books.promised_everywhere()) == 2_000
    books.admit(job(known, "a"))
    assert cpu(books.promised_everywhere()) == 2_000
    current.statement().allocate(known.tasks["default/b"], known.nodes["n1"])  # type: ignore[index]
    assert cpu(books.promised_everywhere()) == 2_000


# -- proportion ---------------------------------------------------------------------------------------------------


# 4 CPUs at most. A was let in for 3 and its pods are being bound; B wants 1: 3 + 1 fits, 3 + 3 + 1 would not.
def test_a_queue_counts_what_is_being_bound_once() -> None:
    known = cluster(
        node("n1", cpu=4),
        queue("q1", capability={"cpu": 4}),
        group("a", queue="q1", min_member=3, min_resources={"cpu": 3}),
        pods("a", 3, group="a", cpu=1),
        group("b", queue="q1", phase="Pending", min_resources={"cpu": 1}),
    )
    first = session(known, tiers=[["proportion"]])
    statement = first.statement()
    for number in range(3):
        statement.allocate(known.tasks[f"default/a-{number}"], known.nodes["n1"])  # type: ignore[index]
    statement.commit()
    assert enter(session(known, tiers=[["proportion"]]), known, "b") is None


# 4 CPUs at most: the first job of 3 takes them up, a second of 2 does not fit any more, one of 1 does.
def test_a_queue_promises_its_capability_once() -> None:
    known = cluster(
        node("n1", cpu=9),
        queue("q1", capability={"cpu": 4}),
        group("first", queue="q1", phase="Pending", min_resources={"cpu": 3}),
        group("second", queue="q1", phase="Pending", min_resources={"cpu": 2}),
        group("third", queue="q1", phase="Pending", min_resources={"cpu": 1}),
        group("elsewhere", phase="Pending", min_resources={"cpu": 5}),
    )
    current = session(known, tiers=[["proportion"]])
    assert enter(current, known, "first") is None
    assert enter(current, known, "second") == Refusal(
        "QueueOverQuota", resource="cpu", need=2_000, have=3_000, total=4_000, subject="q1"
    )
    assert enter(current, known, "third") is None
    assert enter(current, known, "elsewhere") is None


class Doorman(Plugin):
    """Keeps one job out, and has no opinion of others."""

    name = "doorman"

    def __init__(self, keeps_out: str) -> None:
        super().__init__(Arguments())
        self._keeps_out = keeps_out

    def open(self, session: Session) -> None:
        session.add_job_enqueueable(lambda job: Vote.REJECT if job.name == self._keeps_out else Vote.ABSTAIN)


# Proportion would let A in, the doorman does not; what A asked for must still be there for B.
@pytest.mark.parametrize("first", [True, False])
def test_a_job_that_another_plugin_kept_out_was_promised_nothing(first: bool) -> None:
    known = cluster(
        node("n1", cpu=4),
        queue("q1", capability={"cpu": 4}),
        group("a", queue="q1", phase="Pending", min_resources={"cpu": 3}),
        group("b", queue="q1", phase="Pending", min_resources={"cpu": 3}),
    )
    tier = [Doorman("a"), "overcommit", "proportion"]
    current = session(known, tiers=[tier if first else tier[::-1]])
    assert enter(current, known, "a") is not None
    assert enter(current, known, "b") is None


# 5 run of a job let in for 3, in a queue of 6: 5 + 3 is too much, but 2 of the 5 are no reason to keep anyone out.
def test_what_a_job_has_beyond_its_minimum_keeps_nobody_out() -> None:
    known = cluster(
        node("n1", cpu=9),
        queue("q1", capability={"cpu": 6}),
        group("wide", queue="q1", phase="Running", min_member=3, min_resources={"cpu": 3}),
        pods("w", 5, group="wide", cpu=1, node="n1"),
        group("next", queue="q1", phase="Pending", min_resources={"cpu": 3}),
        group("big", queue="q1", phase="Pending", min_resources={"cpu": 4}),
    )
    current = session(known, tiers=[["proportion"]])
    refusal = enter(current, known, "big")
    assert refusal == Refusal("QueueOverQuota", resource="cpu", need=4_000, have=3_000, total=6_000, subject="q1")
    assert enter(current, known, "next") is None


def test_the_number_of_pods_keeps_nobody_out() -> None:
    known = cluster(
        node("n1", cpu=9, pods=1),
        queue("q1", capability={"cpu": 9, "pods": 1}),
        group("runs", queue="q1", phase="Running", min_resources={"cpu": 1, "pods": 1}),
        pod("r", group="runs", cpu=1, node="n1"),
        group("next", queue="q1", phase="Pending", min_resources={"cpu": 1, "pods": 5}),
    )
    assert enter(session(known, tiers=[["overcommit", "proportion"]]), known, "next") is None


def test_a_job_that_states_no_minimum_is_let_in() -> None:
    known = cluster(queue("q1", capability={"cpu": 1}), group("any", queue="q1", phase="Pending"))
    assert enter(session(known, tiers=[["overcommit", "proportion"]]), known, "any") is None


def test_a_queue_without_limits_does_not_blame_its_quota() -> None:
    known = cluster(node("n1", cpu=6), group("huge", phase="Pending", min_resources={"cpu": 20}))
    assert enter(session(known, tiers=[["proportion"]]), known, "huge") == Refusal(
        "InsufficientNode", resource="cpu", need=20_000, have=6_000, total=6_000
    )


# -- overcommit ---------------------------------------------------------------------------------------------------


def six_cpus(minimum: float) -> Cluster:
    return cluster(
        node("n1", cpu=2, memory="4Gi"),
        node("n2", cpu=4, memory="16Gi"),
        group("j", phase="Pending", min_resources={"cpu": minimum, "memory": "2G"}),
    )


# 6 CPUs × 1.2 = 7200m can be promised; a factor below 1 is no factor, and 1.2 is meant.
@pytest.mark.parametrize(
    ("factor", "minimum", "left"),
    [(None, 2, None), (1.2, 7.2, None), (1.2, 7.201, 7_200), (0.8, 7.2, None), (1.0, 6.001, 6_000), (2, 12, None)],
)
def test_the_cluster_promises_a_little_more_than_it_has(factor: object, minimum: float, left: int | None) -> None:
    known = six_cpus(minimum)
    arguments = {} if factor is None else {"overcommit-factor": factor}
    refusal = enter(session(known, tiers=[[plugin("overcommit", arguments)]]), known, "j")
    if left is None:
        assert refusal is None
    else:
        need = round(minimum * 1000)
        said = "" if factor == 1.0 else "1.2"
        assert refusal == Refusal("InsufficientNode", resource="cpu", need=need, have=left, total=left, factor=said)


# 7200m, of which 1000m run and 3000m were promised: 3200m are left.
@pytest.mark.parametrize(("minimum", "admitted"), [(3.2, True), (3.201, False)])
def test_what_runs_and_what_was_promised_is_taken_off(minimum: float, admitted: bool) -> None:
    known = six_cpus(minimum)
    for obj in (
        group("before", min_resources={"cpu": 4}, created=0),
        pod("b", group="before", cpu=1, node="n1", created=0),
        queue("q2", created=0),
    ):
        known.apply(Applied(obj))
    refusal = enter(session(known, tiers=[["overcommit"]]), known, "j")
    assert (refusal is None) is admitted
    if refusal is not None:
        assert (refusal.have, refusal.total) == (3_200, 7_200)


# 7200m can be promised and 6000m are asked for; once 2000m are used, no longer, until they are given back.
def test_what_is_used_follows_the_session() -> None:
    known = six_cpus(6)
    for obj in (group("now", created=0), pod("n", group="now", cpu=2, created=0)):
        known.apply(Applied(obj))
    current = session(known, tiers=[["overcommit"]])
    assert current.job_enqueueable(job(known, "j")) is None
    statement = current.statement()
    statement.allocate(known.tasks["default/n"], known.nodes["n1"])  # type: ignore[index]
    assert current.job_enqueueable(job(known, "j")) is not None
    statement.discard()
    assert current.job_enqueueable(job(known, "j")) is None


def test_a_node_that_is_not_ready_can_promise_nothing_and_owes_nothing() -> None:
    known = cluster(
        node("n1", cpu=2),
        node("lost", cpu=8, ready=False),
        group("r"),
        pod("r", group="r", cpu=8, node="lost"),
        group("fits", phase="Pending", min_resources={"cpu": 2}),
        group("does-not", phase="Pending", min_resources={"cpu": 3}),
    )
    current = session(known, tiers=[["overcommit"]])
    assert enter(current, known, "does-not") is not None
    assert enter(current, known, "fits") is None


def test_a_factor_that_is_no_number_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="overcommit-factor"):
        session(cluster(), tiers=[[plugin("overcommit", {"overcommit-factor": "much"})]])


def test_a_job_that_was_refused_is_asked_about_again_only_after_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    has_room = Overcommit._has_room

    def counted(self: Overcommit, job: Job) -> object:
        asked.append(job.name)
        return has_room(self, job)

    monkeypatch.setattr(Overcommit, "_has_room", counted)
    registry = Registry(installed_plugins=(), installed_actions=())
    deciding = Scheduler(registry.load("actions: enqueue\ntiers: [{plugins: [{name: overcommit}]}]"), registry)
    known = cluster(node("n1", cpu=4), group("large", phase="Pending", min_resources={"cpu": 6}))
    first = deciding.run(known, 1.0)
    asked.clear()
    second = deciding.run(known, 2.0)
    assert asked == ["large"]  # to explain it
    assert second.reasons == first.reasons
    known.apply(Applied(node("n2", cpu=4, created=0)))
    deciding.run(known, 3.0)
    assert job(known, "large").phase == "Inqueue"
