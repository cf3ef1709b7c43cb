"""`topologyKeys`: labels of nodes that say which nodes are close together."""

from __future__ import annotations

import pytest

from builders import cluster, node
from stromboli.scheduling.configuration.arguments import ConfigurationError
from stromboli.scheduling.configuration.configuration_file import (
    Configuration,
    configuration_text,
    load_configuration,
)
from stromboli.scheduling.session import Session

HEAD = "actions: allocate\n"
PLUGIN = "tiers:\n- plugins:\n  - name: network-topology-aware\n    arguments:\n      topologyKeys: "


def read(text: str) -> Configuration:
    return load_configuration(
        HEAD + text, where="s.yaml", actions=["allocate"], plugins=["gang", "network-topology-aware"]
    )


@pytest.mark.parametrize(
    "text",
    [
        "topologyKeys: [zone, example.com/rack]\n",
        'topologyKeys: "zone, example.com/rack"\n',
        PLUGIN + "[zone, example.com/rack]\n",
        "topologyKeys: [zone, example.com/rack]\n" + PLUGIN + "[zone, example.com/rack]\n",
    ],
)
def test_they_stand_at_the_top_or_at_the_plugin(text: str) -> None:
    assert read(text).topology_keys == ("zone", "example.com/rack")
    assert not any("topologyKeys" in warning for warning in read(text).warnings)


def test_without_them_there_are_none() -> None:
    assert read("").topology_keys == ()
    assert read("topologyKeys:\n").topology_keys == ()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("topologyKeys: {}\n", 's.yaml, line 2: argument "topologyKeys" must be a list of strings, not {}'),
        ("topologyKeys: [1]\n", 's.yaml, line 2: argument "topologyKeys" must be a list of strings, not [1]'),
        ("topologyKeys: [a b]\n", 'must be labels such as "topology.kubernetes.io/zone", not ["a b"]'),
        ("topologyKeys: [a, b, a]\n", 'must name "a" once, not ["a", "b", "a"]'),
        (
            "topologyKeys: [a]\n" + PLUGIN + "[b]\n",
            's.yaml, line 7: plugin "network-topology-aware": argument "topologyKeys" must be that of the file (a), or '
            'not be given, not ["b"]',
        ),
    ],
)
def test_mistakes_name_the_line(text: str, says: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        read(text)
    assert says in str(error.value)


def test_a_record_of_a_configuration_has_them() -> None:
    configuration = read("topologyKeys: [zone, rack]\n")
    again = load_configuration(configuration_text(configuration), actions=["allocate"], plugins=["gang"])
    assert again.topology_keys == ("zone", "rack")


def test_sessions_use_them() -> None:
    known = cluster(node("n1", labels={"zone": "z1", "rack": "r1"}))
    tree = Session(known.snapshot(), read("topologyKeys: [zone, rack]\n"), 0.0).topology
    assert [(one.name, one.tier) for one in tree.domains] == [("r1", 1), ("z1", 2)]
