"""YAML whose reading would take time by the square of its length: it stays text, or is one line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from embedded.api import Api, EmbeddedTransport
from stromboli import plain_yaml
from stromboli.console.main import run

MAPS = "/api/v1/namespaces/default/configmaps"
READERS = (["simulate"], ["simulate", os.devnull, "--config"], ["status", "--kubeconfig"])
REFUSED = {
    "digits": "a: " + "9" * 2_000,
    "digits after a point": "a: 1." + "9" * 2_000,
    "hexadecimal digits": "a: 0x" + "f" * 2_000,
    "a number in base 60 by its tag": "a: !!int '1:30'",
    "a float in base 60 by its tag": "a: !!float '1:30'",
    "merge keys": "a:\n" + "  <<: {b: 1}\n" * 101,
    "declarations of tags": "".join(f"%TAG !a{number}! tag:x\n" for number in range(17)) + "---\na: 1\n",
}


def test_base_60_is_text() -> None:
    """As Kubernetes has it. Each part would be multiplied with a power of 60 that is as long as all the others."""
    assert plain_yaml.load("[1:30, -1:30, 1:30.5, 10:20:30, 1:90, 12, 1.5]") == [
        "1:30", "-1:30", "1:30.5", "10:20:30", "1:90", 12, 1.5,
    ]  # fmt: skip
    long = "1" + ":1" * 100_000
    assert plain_yaml.load(f"a: {long}") == {"a": long}


def test_numbers_as_keys_stay_text() -> None:
    """All multiples of 2^61-1 have the same hash: a mapping with many of them looks at each for each."""
    keys = [str(number * (2**61 - 1)) for number in range(100)]
    found = plain_yaml.load("".join(f"{key}: x\n" for key in [*keys, "1.5", "0x10"]))
    assert found == dict.fromkeys([*keys, "1.5", "0x10"], "x")


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_cost_its_square_is_one_line(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "costly.yaml"
    file.write_text(REFUSED[name])
    with pytest.raises(yaml.YAMLError):
        plain_yaml.load(REFUSED[name])
    for reader in READERS:
        assert run([*reader, str(file)]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert "YAML" in error
        assert len(error) < 2_000


@pytest.mark.parametrize("name", REFUSED)
def test_the_embedded_server_refuses_the_same(name: str) -> None:
    body = REFUSED[name].encode()
    assert Api(EmbeddedTransport()).call("POST", MAPS, body, kind="application/yaml").status == 400


def test_a_scenario_has_text_as_keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "keys.yaml"
    for key in ("1", "1.5", "on", "null"):
        file.write_text(f"a:\n  {key}: 1\n")
        assert run(["simulate", str(file)]) == 2
        assert f'the key "{key}" must be text; write it in quotes' in capsys.readouterr().err


def test_a_few_merge_keys_and_declarations_are_read() -> None:
    assert plain_yaml.load("a: &a {x: 1, y: 1}\nb:\n  <<: *a\n  <<: {y: 2}\n  z: 3\n") == {
        "a": {"x": 1, "y": 1}, "b": {"x": 1, "y": 2, "z": 3},
    }  # fmt: skip
    assert plain_yaml.load("%TAG !a! tag:yaml.org,2002:\n---\na: !a!str 1\n") == {"a": "1"}
