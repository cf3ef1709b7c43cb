"""Log records: one line each, as text or JSON, whatever they contain."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from typing import Any

import pytest

from stromboli.errors import UserError
from stromboli.kube.runtime import Log, configure_logging


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


class Said:
    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def lines(self) -> list[str]:
        out, err = self._capsys.readouterr()
        assert out == ""
        assert err == "" or err.endswith("\n")
        return err.splitlines()

    def line(self) -> str:
        [line] = self.lines()
        return line

    def record(self) -> dict[str, Any]:
        return json.loads(self.line())


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    return Said(capsys)


def test_text_reads_like_a_sentence_with_its_numbers(said: Said) -> None:
    configure_logging("info", "text")
    Log("scheduler").info("bound", gang="team/a", pods=3, seconds=0.012)
    stamp, rest = said.line().split(" ", 1)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", stamp)
    assert rest == "INFO scheduler: bound gang=team/a pods=3 seconds=0.012"


def test_json_has_the_same_in_it(said: Said) -> None:
    configure_logging("info", "json")
    Log("scheduler").warning("bound", gang="team/a", pods=3, seconds=0.012, first=True, node=None)
    record = said.record()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", record.pop("time"))
    assert record == {
        "level": "warning", "logger": "scheduler", "message": "bound",
        "gang": "team/a", "pods": 3, "seconds": 0.012, "first": True, "node": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("plain", "plain"),
        ("two words", '"two words"'),
        ("", '""'),
        ("a=b", '"a=b"'),
        ('say "no"', '"say \\"no\\""'),
        ("first\nsecond", '"first\\nsecond"'),
        ("first\u2028second", '"first\\u2028second"'),
        ("bell\x07", '"bell\\u0007"'),
        ("Größe", "Größe"),
        ("Größe XL", '"Größe XL"'),
        (True, "true"),
        (None, "null"),
        (1234567, "1234567"),
        (0.1234567891, "0.123457"),
    ],
)
def test_values_in_text(value: Any, written: str, said: Said) -> None:
    configure_logging("info", "text")
    Log("x").info("y", field=value)
    assert said.line().partition("field=")[2] == written


@pytest.mark.parametrize("format", ["text", "json"])
@pytest.mark.parametrize("trouble", ["a\nb", "a\r\nb", "a\x85b", "a\u2029b", "a\x1b[2Kb"])
def test_a_record_is_always_one_line(format: str, trouble: str, said: Said) -> None:
    configure_logging("info", format)
    Log("x").info(trouble, field=trouble)
    line = said.line()
    assert "\x1b" not in line
    logging.getLogger("library").warning("%s", trouble)
    said.line()


@pytest.mark.parametrize("format", ["text", "json"])
def test_an_exception_is_one_line_too(format: str, said: Said) -> None:
    configure_logging("info", format)
    try:
        raise RuntimeError("a\nb")
    except RuntimeError:
        Log("x").exception("went wrong", pod="a/b")
    line = said.line()
    assert "went wrong" in line
    assert "RuntimeError" in line
    assert "test_logs.py" in line


def test_a_field_never_passes_for_the_record_itself(said: Said) -> None:
    configure_logging("info", "json")
    Log("x").info("y", message="fake", level="fake", time="fake", logger="fake")
    record = said.record()
    assert (record["message"], record["level"], record["logger"]) == ("y", "info", "x")
    assert record["time"] != "fake"


def test_records_below_the_level_are_dropped(said: Said) -> None:
    log = Log("x")
    for level, expected in (("debug", 4), ("info", 3), ("warning", 2), ("error", 1)):
        configure_logging(level, "text")
        log.debug("d")
        log.info("i")
        log.warning("w")
        log.error("e")
        assert len(said.lines()) == expected, level


def test_libraries_come_out_in_the_same_form(said: Said) -> None:
    configure_logging("info", "text")
    logging.getLogger("aiohttp.client").warning("%d connections", 3)
    assert said.line().endswith("WARNING aiohttp.client: 3 connections")


def test_a_second_set_up_replaces_the_first(said: Said) -> None:
    configure_logging("info", "text")
    configure_logging("info", "json")
    Log("x").info("y")
    assert said.record()["message"] == "y"


def test_wrong_names_are_refused_with_the_right_ones() -> None:
    with pytest.raises(UserError, match=r'log level "loud" is not one of debug, info, warning, error'):
        configure_logging("loud", "text")
    with pytest.raises(UserError, match=r'log format "xml" is not one of text, json'):
        configure_logging("info", "xml")
