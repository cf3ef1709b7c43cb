"""Kill `stromboli up` at random instants while it runs programs, and see what is left of them.

    python benchmarks/program_kills.py --rounds 50 --programs 30 --seed 1

Every program appends a line to a file when it starts. Half of the pods may run only once (restartPolicy Never), the
others always; every third program starts others that detach themselves. In every round some pods are created, and at a
random instant `up` is killed (SIGKILL). After each kill no process of any program may be alive. At the end no pod that
may run once has started twice, every pod that runs always runs again, and the logs of the last runs are there.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

MARK: Final = "STROMBOLI_PROGRAM_KILLS"
PATIENCE: Final = 120.0
END_SECONDS: Final = 5.0
DETACH: Final = "(setsid sleep 10000 &); (setsid nohup sleep 10000 >/dev/null 2>&1 &); "


class Rounds:
    def __init__(self, folder: Path, programs: int, seed: int) -> None:
        self._folder = folder
        self._programs = programs
        self._dice = random.Random(seed)
        self._mark = str(folder)
        self._created = 0
        self._up: subprocess.Popen[str] | None = None

    def run(self, rounds: int) -> dict[str, int]:
        """What happened. Raises AssertionError if something is left, or was started twice."""
        per_round = -(-self._programs // rounds)
        for number in range(rounds):
            self._start()
            self._create(min(per_round, self._programs - self._created))
            time.sleep(self._dice.random() * 3)
            self._kill()
            self._await_the_end(f"round {number}")
        self._start()
        result = self._check()
        self._kill()
        self._await_the_end("at the end")
        return result | {"kills": rounds + 1}

    def _start(self) -> None:
        command = [sys.executable, "-m", "stromboli", "up", "--runner", "process", "--nodes", "1", "--node-cpu", "512"]
        command += ["--data", str(self._folder / "data"), "--kubeconfig-out", str(self._folder / "kubeconfig")]
        command += ["--no-web"]
        self._up = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert self._up.stdout is not None
        for line in self._up.stdout:
            if "kubectl get nodes" in line:
                return
        raise AssertionError("up ended before it was ready")

    def _kill(self) -> None:
        assert self._up is not None
        self._up.kill()
        self._up.wait()
        assert self._up.stdout is not None
        self._up.stdout.close()

    def _await_the_end(self, when: str) -> None:
        """The kernel ends what was in the sandboxes."""
        end = time.monotonic() + END_SECONDS
        while left := self._alive():
            assert time.monotonic() < end, f"{when}: processes {left} outlived the kill by {END_SECONDS:g} s"
            time.sleep(0.1)

    def _create(self, count: int) -> None:
        if not count:
            return
        pods = [self._pod(number) for number in range(self._created, self._created + count)]
        self._created += count
        manifest = self._folder / "pods.yaml"
        manifest.write_text("---\n".join(f"{json.dumps(pod)}\n" for pod in pods))
        self._stromboli("submit", "-f", str(manifest))

    def _pod(self, number: int) -> dict[str, Any]:
        starts = self._folder / f"starts-{number}"
        script = f"echo start >>{starts}; echo running; {DETACH if number % 3 == 0 else ''}exec sleep 10000"
        container = {
            "name": "main",
            "command": ["sh", "-c", script],
            "env": [{"name": MARK, "value": self._mark}],
            "resources": {"requests": {"cpu": "100m"}},
        }
        spec = {"restartPolicy": "Never" if number % 2 else "Always", "containers": [container]}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p{number}"}, "spec": spec}

    def _stromboli(self, *arguments: str) -> str:
        options = ["--kubeconfig", str(self._folder / "kubeconfig")]
        command = [sys.executable, "-m", "stromboli", arguments[0], *options, *arguments[1:]]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE).stdout

    def _alive(self) -> list[int]:
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    if f"{MARK}={self._mark}".encode() in (entry / "environ").read_bytes():
                        found.append(int(entry.name))
                except OSError:
                    continue
        return found

    def _starts(self, number: int) -> int:
        path = self._folder / f"starts-{number}"
        return len(path.read_text().split()) if path.exists() else 0

    def _check(self) -> dict[str, int]:
        always = [number for number in range(self._created) if number % 2 == 0]
        never = [number for number in range(self._created) if number % 2]
        end = time.monotonic() + PATIENCE
        while True:
            missing = [number for number in always if not self._starts(number)]
            log = {} if missing else {number: self._log(number) for number in always[:3]}
            if log and all("running" in text for text in log.values()):
                break
            assert time.monotonic() < end, f"pods {missing} do not run; logs {log}"
            time.sleep(0.5)
        twice = [number for number in never if self._starts(number) > 1]
        assert not twice, f"pods {twice} may run once, and were started again"
        return {
            "programs": self._created,
            "starts_of_those_that_run_always": sum(self._starts(number) for number in always),
            "starts_of_those_that_run_once": sum(self._starts(number) for number in never),
        }

    def _log(self, number: int) -> str:
        return self._stromboli("logs", f"default/p{number}")


def run_rounds(rounds: int, programs: int, seed: int, folder: Path) -> dict[str, int]:
    return Rounds(folder, programs, seed).run(rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--programs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result: dict[str, Any] = run_rounds(arguments.rounds, arguments.programs, arguments.seed, Path(folder))
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
