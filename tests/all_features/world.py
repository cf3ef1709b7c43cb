"""A world: the documents of a scenario, the configuration of the scheduler, the policy of the descheduler, and an end.

Nothing else is known about it. Checkers read these files and the report, so that a world from which objects were taken
away is a world again, and a failing one can be made small.
"""

from __future__ import annotations

import json
import shlex
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from click.testing import CliRunner

from stromboli.console.main import cli
from stromboli.simulation.engine import Engine
from stromboli.simulation.report import build_report

Document = dict[str, Any]
Report = dict[str, Any]

PERIOD = 1.0  # seconds between two cycles
SAMPLE = 4  # every so many seconds the whole report is looked at


@dataclass(frozen=True)
class World:
    documents: list[Document]
    config: Document
    policy: Document
    until: int
    flags: tuple[str, ...] = ()

    def write(self, folder: Path, documents: Iterable[Document] | None = None) -> list[str]:
        """The files of a run; returns the arguments of `stromboli` that run them. JSON is YAML."""
        folder.mkdir(parents=True, exist_ok=True)
        scenario, config, policy = (folder / f"{name}.yaml" for name in ("scenario", "scheduler", "descheduler"))
        chosen = self.documents if documents is None else documents
        scenario.write_text("".join(f"---\n{json.dumps(document)}\n" for document in chosen), encoding="utf-8")
        config.write_text(json.dumps(self.config, indent=2) + "\n", encoding="utf-8")
        policy.write_text(json.dumps(self.policy, indent=2) + "\n", encoding="utf-8")
        return [
            "simulate", str(scenario), "--config", str(config), "--descheduler-config", str(policy),
            "--until", f"{self.until}s", *self.flags, "--output", "json",
        ]  # fmt: skip

    def output(self, documents: Iterable[Document] | None = None) -> bytes:
        """What `stromboli simulate` prints."""
        with tempfile.TemporaryDirectory() as folder:
            result = CliRunner().invoke(cli, self.write(Path(folder), documents), catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.stdout_bytes

    def observe(self) -> Run:
        """A run that is looked at while it goes on."""
        samples: list[Report] = []

        def watched(engine: Engine, run: Callable[[Engine], None]) -> None:
            following: list[float] = [0.0]

            def look(at: int) -> None:
                now = at / 1e6
                if now >= following[0]:
                    following[0] = now + SAMPLE
                    samples.append({**build_report(engine), "end": now, "events": []})

            engine.on_cycle = look
            run(engine)

        original = Engine.run
        with mock.patch.object(Engine, "run", lambda engine: watched(engine, original)):
            text = self.output()
        return Run(self, text, samples)


def read(folder: Path, until: int, flags: Iterable[str] = ()) -> World:
    """A world as `write` wrote it."""
    text = (folder / "scenario.yaml").read_text(encoding="utf-8")
    documents = [json.loads(part) for part in text.split("---\n") if part.strip()]
    config, policy = (json.loads((folder / f"{name}.yaml").read_text()) for name in ("scheduler", "descheduler"))
    return World(documents, config, policy, until, tuple(flags))


@dataclass
class Run:
    world: World
    text: bytes
    samples: list[Report] = field(default_factory=list)  # the report at several times; `events`: how many there were

    def __post_init__(self) -> None:
        self.report: Report = json.loads(self.text)


def command(arguments: list[str]) -> str:
    return "stromboli " + " ".join(shlex.quote(argument) for argument in arguments)
