"""One plan, from the start of its world to the verdict."""

from __future__ import annotations

import logging
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from stromboli.containment import Strictness
from stromboli.embedded.server import Request
from stromboli.embedded.store import Change

from .checkers.acknowledged import Acknowledged
from .checkers.at_once import AtOnce
from .checkers.at_rest import AtRest
from .checkers.claims import Claims
from .checkers.obeyed import Obeyed
from .checkers.order import Order
from .checkers.truth import Truth
from .plan import Plan
from .simulated.guard import Forbidden, nothing_real
from .simulated.history import brief
from .simulated.loop import Stuck, VirtualLoop
from .step import Step
from .users import Users
from .world import EPOCH, World

REST: Final = 12.0  # seconds before the end, in which nothing may be written
AWAKE: Final = 3.0  # seconds after which a process that was frozen has seen what it missed
CONNECTED: Final = 20.0  # seconds after which one has that had no connection
TRUE: Final = 30.0  # seconds after the last fault, when every status says what is true
SETTLED: Final = 5.0  # seconds for which a status may follow what it is about
EARLY: Final = (
    14.0,
    18.0,
    22.0,
    26.0,
)  # seconds after the last fault: a world ends if everything is as it should be
END: Final = 62.0  # seconds after the last fault, when every world ends
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
        self.world = World(plan)
        self.truth = Truth()
        clock = self.world.loop.time
        self.at_once = AtOnce(self.truth, clock, self._life, self.report)
        self.order = Order(self.truth, self.report)
        self.obeyed = Obeyed(self.truth, self._life, self.report)
        self.claims = Claims(self.truth, self.report)
        self.users = Users(self.world, plan.calm)
        self.acknowledged = Acknowledged(self.truth, self.report)
        server = self.world.server
        for resource in list(server.store.resources()):
            for record in server.store.list(resource):
                self.truth.apply(record.key, record.value())
        server.listeners.append(self._committed)
        server.arriving = self._arrives
        server.handled = self.at_once.handled
        server.meetings = self.users.meetings.met
        server.stale = self.truth.stale

    def _life(self, who: str) -> object:
        return self.world.processes[who].owner

    def report(self, rule: str, text: str) -> None:
        if len(self.findings) < 20:
            self.findings.append(f"{rule}: {text} (at {self.world.loop.time():.3f})")
            self.world.say("FINDING", self.findings[-1])

    def _committed(self, change: Change, writer: str) -> None:
        key, value = change.record.key, change.record.value()
        if key.resource not in _QUIET:
            self.world.say(writer or "-", f"  {change.type} {key.resource} {key.name} {brief(value)}")
            if self.truth.calm:
                text = f"{change.type} {key.resource} {key.name} by {writer or 'the server'}"
                self.writes.append((self.world.loop.time(), text))
        before, after = self.truth.get(key), None if change.type == "DELETED" else value
        self.truth.apply(key, after)
        for checker in (self.acknowledged, self.at_once, self.order, self.obeyed, self.claims):
            checker.committed(key.resource, before, after, writer)

    def _arrives(self, who: str, what: str, request: Request) -> None:
        self.at_once.arrives(who, what, request)
        self.order.arrives(who, what, request)

    def run(self) -> None:
        self.world.start()
        calm = self.plan.calm
        for step in self.plan.steps:
            if step.at < calm:
                self._do(step)
        self.world.run_until(calm)
        self.users.calm()
        self.truth.calm = True
        at_rest = AtRest(self.truth)
        if not self._ends_early(at_rest):
            self._check_statuses(at_rest)
            end = calm + END + max(0.0, self.plan.longest_grace - TRUE)  # whoever made room last is gone
            self.world.run_until(end)
            found = self._check(at_rest)
            if any(rule == "rest" for rule, _ in found):  # it may be that the last pod has just ended
                self.world.run_until(end + REST)
                found = [one for one in found if one[0] != "rest"] + self._check(at_rest)
            for rule, text in found:
                self.report(rule, text)
        self.acknowledged.compare(self.world.server.store)
        self.obeyed.compare()
        self.claims.compare()
        for who, process in self.world.processes.items():
            for crash in process.crashes:
                self.report("crash", f"{who}: {crash}")
            if not process.runs:
                self.report("crash", f"{who} does not run")

    def _ends_early(self, at_rest: AtRest) -> bool:
        """Of eight worlds, one is watched to the end, even if everything seems to be as it should be."""
        if self.plan.seed % 8 == 0:
            return False
        for seconds in EARLY:
            self.world.run_until(self.plan.calm + seconds)
            if not self._check(at_rest):
                return True
        return False

    def _check_statuses(self, at_rest: AtRest) -> None:
        begin = self.plan.calm + TRUE - SETTLED
        self.world.run_until(begin)
        wrong = at_rest.statuses()
        for second in range(1, 1 + int(SETTLED)):
            self.world.run_until(begin + second)
            now = at_rest.statuses()
            wrong = [one for one in wrong if one in now]
        for rule, text in wrong:
            self.report(rule, text)

    def _check(self, at_rest: AtRest) -> list[tuple[str, str]]:
        since = self.world.loop.time() - REST
        known = {who: process.knows() for who, process in self.world.processes.items() if process.runs}
        found = at_rest.check([text for when, text in self.writes if when > since], known)
        page = self.world.processes.get("page")
        return found if page is None else found + at_rest.page(page.shows())

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
