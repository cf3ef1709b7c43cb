"""The walk returns jobs in the order that sorting everything again before each job would give."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from stromboli.cluster import Job, JobKey, Queue, QueueName
from stromboli.cluster.resources import ResourceAxis
from stromboli.scheduling.points import Points
from stromboli.scheduling.turns import Turns
from stromboli.scheduling.walk import Walk

NAMESPACES = ("ns1", "ns2", "ns3")


class Books:
    """Stands in for a session: shares that grow, by queue, by queue and namespace, and by job."""

    def __init__(self, random: Random, *, scope: str, falls: bool) -> None:
        zeros = ResourceAxis().zeros()
        self.queues = [Queue(QueueName(f"q{number}"), zeros, zeros, zeros) for number in range(random.randint(1, 5))]
        self.jobs = []
        for number in range(random.randint(1, 40)):
            namespace, name = random.choice(NAMESPACES), f"j{number:02}"
            self.jobs.append(Job(
                JobKey(f"{namespace}/{name}"), name, namespace, random.choice(self.queues), zeros,
                priority=random.choice([0, 0, 5]),
            ))  # fmt: skip
        self.namespace_scope = scope
        self.points = Points()
        if falls:
            with self.points.desk.open("test", 0, None, is_ours=True):
                self.points.queue_key_falls.add(self.queue_key_falls)
        self.fallen = 0
        self.share: dict[Any, int] = {}
        self.limit = random.randint(5, 40)

    def queue_key_falls(self) -> int:
        return self.fallen

    def queue_key(self, queue: Queue) -> tuple[Any, ...]:
        return (self.share.get(queue.name, 0), queue.name)

    def queue_path(self, queue: Queue) -> list[tuple[str, Callable[[], Any]]]:
        return [(queue.name, lambda: self.queue_key(queue))]

    def namespace_key(self, queue: Queue, namespace: str) -> tuple[Any, ...]:
        return (self.share.get((queue.name, namespace), 0), namespace)

    def job_key(self, job: Job) -> tuple[Any, ...]:
        return (-job.priority, self.share.get(job.key, 0), job.key)

    def is_full(self, queue: Queue) -> bool:
        return self.share.get(queue.name, 0) > self.limit

    def grow(self, job: Job, amount: int) -> None:
        for owner in (job.queue.name, (job.queue.name, job.namespace), job.key):
            self.share[owner] = self.share.get(owner, 0) + amount

    def fall(self, queue: Queue) -> None:
        if self.points.queue_key_falls:
            self.fallen += 1
            self.share[queue.name] = self.share.get(queue.name, 0) // 2


class PlainWalk:
    """Sorts everything before each job."""

    def __init__(self, books: Books) -> None:
        self.books = books
        self.left = {job.key: (books.job_key(job), job) for job in books.jobs}
        self.dropped: list[Job] = []
        self.last: Job | None = None

    def next(self) -> Job | None:
        while self.left:
            queue = min((job.queue for _, job in self.left.values()), key=self.books.queue_key)
            inside = sorted((entry for entry in self.left.values() if entry[1].queue is queue), key=lambda e: e[0])
            if self.books.is_full(queue):
                self._drop(inside)
                continue
            first: dict[str, tuple[Any, Job]] = {}
            for entry in inside:
                first.setdefault(entry[1].namespace, entry)
            _, self.last = min(first.values(), key=lambda entry: self._namespace_key(entry[1]))
            del self.left[self.last.key]
            return self.last
        return None

    def _namespace_key(self, job: Job) -> Any:
        key = self.books.namespace_key(job.queue, job.namespace)
        return (-job.priority, key) if self.books.namespace_scope == "withinPriority" else key

    def again(self, job: Job) -> None:
        self.left[job.key] = (self.books.job_key(job), job)

    def stop_queue(self) -> None:
        assert self.last is not None
        queue = self.last.queue
        self._drop(sorted((entry for entry in self.left.values() if entry[1].queue is queue), key=lambda e: e[0]))

    def _drop(self, entries: list[tuple[Any, Job]]) -> None:
        for _, job in entries:
            self.dropped.append(job)
            del self.left[job.key]


@pytest.mark.parametrize("scope", ["beforePriority", "withinPriority"])
@pytest.mark.parametrize("falls", [False, True])
def test_the_order_is_that_of_sorting_again(scope: str, falls: bool) -> None:
    turns = 0
    for seed in range(60):
        books = Books(Random(seed), scope=scope, falls=falls)
        random = Random(seed)
        asked = {name: getattr(books, name) for name in dir(books) if name[0] != "_"}
        session: Any = SimpleNamespace(**asked, turns=Turns())
        walk, plain = Walk(session, books.jobs, drop=books.is_full), PlainWalk(books)
        while (job := walk.next()) is not None:
            assert job is plain.next(), f"seed {seed}"
            turns += 1
            books.grow(job, random.randint(0, 3))
            if random.random() < 0.1:
                books.fall(random.choice(books.queues))
            if random.random() < 0.4:
                walk.again(job)
                plain.again(job)
            elif random.random() < 0.05:
                walk.stop_queue()
                plain.stop_queue()
        assert plain.next() is None
        assert walk.dropped == plain.dropped, f"seed {seed}"
    assert turns > 1000
