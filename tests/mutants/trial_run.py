"""Tries changes one after the other: a plugin of pytest that collects the tests once and forks for each change.

In the child, the functions that were imported get the changed code. Processes that tests start read the changed module
from the copy of the source. The child ends at the first test that fails, or when a test takes much longer than it did.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest
from hypothesis import Phase, settings

PASSED, FAILED, IMPOSSIBLE = 0, 1, 9
# They follow processes in real time, so a machine that stalls could be what failed. They have to fail twice.
REAL_TIME = ("tests/live/", "tests/embedded/", "tests/listeners/", "tests/page/")
MOST_MEMORY = 4 << 30


def pytest_sessionstart() -> None:
    """Nobody reads the examples of property tests here, so they need not be made small."""
    settings.register_profile("mutants", settings(), phases=(Phase.explicit, Phase.generate))
    settings.load_profile("mutants")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    plan = json.loads(Path(os.environ["STROMBOLI_TRIALS"]).read_text(encoding="utf-8"))
    TrialRun(session, plan["seconds"]).run(plan["changes"], Path(plan["results"]))
    return True


class TrialRun:
    def __init__(self, session: pytest.Session, seconds: dict[str, float]) -> None:
        self.items: dict[str, Any] = {item.nodeid: item for item in session.items}
        self.seconds = seconds
        self.sound: dict[str, bool] = {}  # Whether a test passes alone, on the source as it is.
        self.functions: dict[tuple[str, str], list[FunctionType]] = {}
        for thing in gc.get_objects():
            if isinstance(thing, FunctionType):
                key = (thing.__code__.co_filename, thing.__code__.co_qualname)
                self.functions.setdefault(key, []).append(thing)

    def run(self, changes: list[dict[str, Any]], results: Path) -> None:
        for change in changes:
            began = time.monotonic()
            outcome, test = self.judge(change)
            took = round(time.monotonic() - began, 1)
            with results.open("a", encoding="utf-8") as file:
                line = {
                    "key": change["key"],
                    "outcome": outcome,
                    "test": test,
                    "took": took,
                    "version": change["version"],
                }
                file.write(json.dumps(line) + "\n")
            print(f"{outcome:9} {took:6.1f} s  {change['place']}  {test}", flush=True)

    def judge(self, change: dict[str, Any]) -> tuple[str, str]:
        tests = [test for test in change["tests"] if test in self.items]
        while tests:
            status, last = self.fork_changed(tests, change)
            if status == PASSED:
                break
            if status == IMPOSSIBLE:
                return "skipped", ""
            if self.is_real(last, change):
                return "killed", last
            tests = tests[tests.index(last) + 1 :]
        return "survived", ""

    def is_real(self, test: str, change: dict[str, Any]) -> bool:
        if test.startswith(REAL_TIME) and self.fork_changed([test], change)[0] == PASSED:
            return False
        if test not in self.sound:
            self.sound[test] = self.fork([test], None)[0] == PASSED
        return self.sound[test]

    def fork_changed(self, tests: list[str], change: dict[str, Any]) -> tuple[int, str]:
        with written(Path(change["path"]), change["source"]):
            return self.fork(tests, change)

    def fork(self, tests: list[str], change: dict[str, Any] | None) -> tuple[int, str]:
        """How a child ended that ran these tests, and the last test that it began."""
        sys.stdout.flush()
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.close(reading)
            self.be_child(tests, change, writing)
        os.close(writing)
        begun = b""
        while part := os.read(reading, 65536):
            begun = (begun + part)[-65536:]
        os.close(reading)
        _, status = os.waitpid(child, 0)
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # What tests started and left behind.
        code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else FAILED
        return code, begun.decode().splitlines()[-1] if begun else tests[0]

    def be_child(self, tests: list[str], change: dict[str, Any] | None, pipe: int) -> None:
        os.setsid()
        os.set_inheritable(pipe, False)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nowhere, descriptor)
        resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
        status = FAILED
        try:
            sys.dont_write_bytecode = True
            os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
            if change is not None and not self.change_code(change):
                os._exit(IMPOSSIBLE)
            status = self.run_tests(tests, pipe)
        finally:
            os._exit(status)

    def run_tests(self, tests: list[str], pipe: int) -> int:
        for test, following in zip(tests, [*tests[1:], None], strict=True):
            os.write(pipe, test.encode() + b"\n")
            # Their default action ends the process. Processor time is what counts, on a machine that others use too.
            signal.setitimer(signal.ITIMER_PROF, 5 + 10 * self.seconds.get(test, 1.0))
            signal.alarm(60 + int(20 * self.seconds.get(test, 1.0)))
            item = self.items[test]
            failures = Failures()
            item.config.pluginmanager.register(failures)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=self.items[following] if following else None)
            item.config.pluginmanager.unregister(failures)
            if failures.any:
                return FAILED
        return PASSED

    def change_code(self, change: dict[str, Any]) -> bool:
        """Give the imported function its changed code. A module that nobody imported yet is read changed."""
        if change["module"] not in sys.modules:
            return True
        codes: dict[str, list[CodeType]] = {}
        _collect(compile(change["source"], change["path"], "exec"), codes)
        functions = self.functions.get((change["path"], change["function"]), [])
        candidates = codes.get(change["function"], [])
        if len(candidates) != 1 or not functions:
            return False  # Two functions of one name, such as a property and its setter.
        try:
            for function in functions:
                function.__code__ = candidates[0]
        except ValueError:
            return False  # It no longer uses a variable from outside.
        return True


class Failures:
    any = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.any |= report.failed


def _collect(code: CodeType, found: dict[str, list[CodeType]]) -> None:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found.setdefault(constant.co_qualname, []).append(constant)
            _collect(constant, found)


@contextmanager
def written(path: Path, source: str) -> Iterator[None]:
    """The changed module on disk, with a time of its own, so that no compiled file is taken for it."""
    before, times = path.read_bytes(), path.stat()
    path.write_text(source, encoding="utf-8")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns + 10**12))
    try:
        yield
    finally:
        path.write_bytes(before)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
