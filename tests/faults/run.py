"""One plan, from the start of its world to the verdict."""

from __future__ import annotations

import logging
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from stromboli.containment import Strictness
from stromboli.embedded.store import Change

from .checkers.acknowledged import Acknowledged
from .checkers.at_once import AtOnce
from .checkers.at_rest import AtRest
from .checkers.truth import Truth
from .plan import BEGIN, CALM, END, Plan, Step
from .simulated.guard import Forbidden, nothing_real
from .simulated.history import brief
from .simulated.loop import Stuck, VirtualLoop
from .users import Users
from .world import EPOCH, World

REST: Final = 12.0  # seconds before the end, in which nothing may be written
AWAKE: Final = 3.0  # seconds after which a process that was frozen has seen what it missed
CONNECTED: Final = 20.0  # seconds after which one has that had no connection
TRUE: Final = 30.0  # seconds after the last fault, when every status says what is true
SETTLED: Final = 5.0  # seconds for which a status may follow what it is about
EARLY: Final = CALM + 44.0  # most worlds end here, if everything is as it should be at the end
_NAMES: Final = re.compile(r"\b[\w.-]*(\d|web-)[\w.-]*| \(at .*\)|\n(?s:.*)")
_QUIET: Final = ("leases.coordination.k8s.io", "events")


@dataclass
class Verdict:
    plan: Plan
    findings: list[str]
    lines: list[str]
    digest: str
    hits: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By fault, and by what it hit."""

    @property
    def kinds(self) -> set[str]:
        """Of findings: without names, numbers and times."""
        return {_NAMES.sub("#", finding) for finding in self.findings}


class _Log(logging.Handler):
    """What the processes say. Errors are findings."""

    def __init__(self, run: _Run) -> None:
        super().__init__(logging.INFO)
        self._run = run

    def emit(self, record: logging.LogRecord) -> None:
        fields = " ".join(f"{name}={value}" for name, value in getattr(record, "fields", {}).items())
        text = f"{record.name.removeprefix('stromboli.')}: {record.getMessage()} {fields}"
        self._run.world.say("log", f"{record.levelname} {text}")
        if record.levelno >= logging.ERROR or record.exc_info:
            detail = logging.Formatter().formatException(record.exc_info) if record.exc_info else ""
            self._run.report("error", f"{text}\n{detail}")


class _Run:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.findings: list[str] = []
        self.writes: list[tuple[float, str]] = []
        """When, and what, after the last fault."""
        self.world = World(plan.seed, plan.nodes)
        self.truth = Truth()
        clock = self.world.loop.time
        self.at_once = AtOnce(self.truth, clock, self.report)
        self.users = Users(self.world)
        self.acknowledged = Acknowledged(self.truth, self.report)
        server = self.world.server
        for resource in list(server.store.resources()):
            for record in server.store.list(resource):
                self.truth.apply(Change("ADDED", record, None))
        server.listeners.append(self._committed)
        server.arriving = self.at_once.arrives
        server.handled = self.at_once.handled
        server.meetings = self.users.meetings.met
        server.stale = self.truth.stale

    def report(self, rule: str, text: str) -> None:
        if len(self.findings) < 20:
            self.findings.append(f"{rule}: {text} (at {self.world.loop.time():.3f})")
            self.world.say("FINDING", self.findings[-1])

    def _committed(self, change: Change, writer: str) -> None:
        key = change.record.key
        if key.resource not in _QUIET:
            self.world.say(writer or "-", f"  {change.type} {key.resource} {key.name} {brief(change.record.value())}")
            if self.truth.calm:
                text = f"{change.type} {key.resource} {key.name} by {writer or 'the server'}"
                self.writes.append((self.world.loop.time(), text))
        self.acknowledged.committed(change, writer)
        self.at_once.committed(change, writer)

    def run(self) -> None:
        self.world.start()
        for step in self.plan.steps:
            if step.at < CALM:
                self._do(step)
        self.world.run_until(CALM)
        self.users.calm()
        self.truth.calm = True
        at_rest = AtRest(self.truth)
        self._check_statuses(at_rest)
        self.world.run_until(EARLY)
        if self.plan.seed % 4 == 0 or self._check(at_rest):
            self.world.run_until(END)
            for rule, text in self._check(at_rest):
                self.report(rule, text)
        self.acknowledged.compare(self.world.server.store)
        for who, process in self.world.processes.items():
            for crash in process.crashes:
                self.report("crash", f"{who}: {crash}")
            if not process.runs:
                self.report("crash", f"{who} does not run")

    def _check_statuses(self, at_rest: AtRest) -> None:
        self.world.run_until(CALM + TRUE - SETTLED)
        wrong = at_rest.statuses()
        for second in range(1, 1 + int(SETTLED)):
            self.world.run_until(CALM + TRUE - SETTLED + second)
            now = at_rest.statuses()
            wrong = [one for one in wrong if one in now]
        for rule, text in wrong:
            self.report(rule, text)

    def _check(self, at_rest: AtRest) -> list[tuple[str, str]]:
        since = self.world.loop.time() - REST
        known = {who: process.knows() for who, process in self.world.processes.items() if process.runs}
        return at_rest.check([text for when, text in self.writes if when > since], known)

    def _do(self, step: Step) -> None:
        world, who = self.world, step.arguments.get("who", "")
        world.run_until(step.at)
        if step.do in ("freeze", "partition"):
            self.truth.hold(who)
        if step.do in ("thaw", "heal"):
            self.truth.let_go(who, world.loop.time() + (AWAKE if step.do == "thaw" else CONNECTED))
        if step.do in ("crash-server", "compact"):
            for each in world.processes:
                self.truth.stale(each, world.loop.time() + CONNECTED)
        self.users.do(step)


def judge(plan: Plan) -> Verdict:
    loops: list[VirtualLoop] = []
    problems: list[str] = []
    log = logging.getLogger("stromboli")
    level, propagates = log.level, log.propagate
    with nothing_real(lambda: EPOCH + (loops[0].time() if loops else 0.0)) as used:
        run = _Run(plan)
        loop = run.world.loop
        loops.append(loop)
        handler = _Log(run)
        log.addHandler(handler)
        log.setLevel(logging.INFO)
        log.propagate = False
        Strictness.is_strict = True
        try:
            run.run()
        except (Forbidden, Stuck) as error:
            problems.append(f"stuck: {error}")
        finally:
            Strictness.is_strict = False
            log.removeHandler(handler)
            log.setLevel(level)
            log.propagate = propagates
            run.world.end()
    findings = run.findings + problems + [f"real: {one}" for one in dict.fromkeys(used)]
    findings += [f"loop: {one}" for one in loop.problems[:5]]
    lines = run.world.history.lines
    return Verdict(plan, findings, lines, run.world.history.digest(), run.world.rules.hits)


__all__ = ["BEGIN", "Verdict", "judge"]
