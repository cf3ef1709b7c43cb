"""`stromboli defrag` asks a running descheduler, and shows its answer."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from stromboli.console.main import run

ANSWER = {
    "applied": False, "notes": [],
    "plans": [{
        "plugin": "Defragmentation", "goal": "makes room for default/big on node b",
        "moves": [{
            "pod": "default/web-3", "from": "b", "to": "a", "requests": {"nvidia.com/gpu": "1", "cpu": "1500m"},
        }],
    }],
    "picture": ["a  ███·  3 of 4 nvidia.com/gpu  ▶  ████  4 of 4"],
}  # fmt: skip


class Handler(BaseHTTPRequestHandler):
    asked: list[str]

    def answer(self) -> None:
        type(self).asked.append(f"{self.command} {self.path}")
        status, answer = (409, {"error": "another replica leads"}) if self.command == "POST" else (200, ANSWER)
        if "nosuch" in self.path:
            status, answer = 404, {"error": "there is no Job or PodGroup default/nosuch"}
        body = b"<html>" if self.path.startswith("/elsewhere") else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = answer

    def log_message(self, format: str, *args: object) -> None:
        """Nothing on standard error."""


@pytest.fixture
def address() -> Iterator[str]:
    Handler.asked = []
    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_plan_is_shown(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["defrag", "plan", "--for", "default/big", "--address", address]) == 0
    assert Handler.asked == ["GET /descheduler/plan?for=default%2Fbig"]
    shown = capsys.readouterr().out
    assert "Defragmentation makes room for default/big on node b:" in shown
    assert "default/web-3  b ▶ a  (1 nvidia.com/gpu, 1.5 cpu)" in shown
    assert "▶  ████  4 of 4" in shown


def test_a_refusal_is_one_line(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["defrag", "apply", "--address", address]) == 3
    assert Handler.asked == ["POST /descheduler/apply"]
    assert capsys.readouterr().err == f"stromboli: error: {address}: another replica leads\n"


def test_nobody_answers(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["defrag", "plan", "--address", "http://127.0.0.1:1"]) == 3
    assert "no descheduler answers there" in capsys.readouterr().err
    assert run(["defrag", "plan", "--address", "ftp://x"]) == 2


def test_a_job_that_does_not_exist_is_wrong_input(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["defrag", "plan", "--for", "nosuch", "--address", address]) == 2
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    assert f"{address}: there is no Job or PodGroup default/nosuch" in shown.err


def test_something_else_answers(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["defrag", "plan", "--address", f"{address}/elsewhere"]) == 3
    assert "no descheduler answers there (something else does)" in capsys.readouterr().err
