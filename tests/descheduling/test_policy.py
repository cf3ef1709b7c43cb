"""The policy file: what is accepted, and one clear line about what is not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from descheduling.plans import low_nodes, policy
from stromboli.descheduling import Registry, warnings_about
from stromboli.descheduling.policy import Schedule
from stromboli.scheduling.configuration import ConfigurationError
from stromboli.scheduling.registry import Registry as SchedulingRegistry

UPSTREAM = """
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
nodeSelector: pool=gpu,!spot
maxNoOfPodsToEvictPerNode: 5
gracePeriodSeconds: 30
profiles:
- name: ProfileName
  pluginConfig:
  - name: DefaultEvictor
    args:
      ignorePvcPods: true
      nodeFit: true
      priorityThreshold: {value: 10000}
  - name: HighNodeUtilization
    args:
      thresholds: {cpu: 20, memory: 20, pods: 20}
      evictableNamespaces: {exclude: [kube-system]}
  plugins:
    balance:
      enabled: [HighNodeUtilization]
"""


def load(text: str) -> Any:
    return Registry(installed=()).load(text, where="policy.yaml")


def test_a_file_of_the_kubernetes_descheduler() -> None:
    found = load(UPSTREAM)
    (profile,) = found.profiles
    assert profile.balance == ("HighNodeUtilization",)
    assert profile.evictors == ("DefaultEvictor",)
    assert found.limits.per_node == 5
    assert found.schedule.interval == 300.0
    assert [(r.key, r.operator, r.values) for r in found.node_selector.match_expressions] == [
        ("pool", "In", ["gpu"]), ("spot", "DoesNotExist", []),
    ]  # fmt: skip
    assert found.warnings == ('policy.yaml, line 6: "gracePeriodSeconds" has no effect here',)


def changed(**top: Any) -> str:
    document = {
        "apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy",
        "profiles": [{"name": "p", "plugins": {"balance": {"enabled": ["Defragmentation"]}}}], **top,
    }  # fmt: skip
    return json.dumps({key: value for key, value in document.items() if value is not None}, indent=1)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (changed(kind="Policy"), '"kind" must be DeschedulerPolicy'),
        (changed(apiVersion="descheduler/v1"), '"apiVersion" must be descheduler/v1alpha2'),
        (changed(profiles=[]), '"profiles" is empty'),
        (changed(deschedulingInterval="often"), '"deschedulingInterval" must be a duration'),
        (changed(deschedulingIntervalCronExpression="often"), "is not a cron expression"),
        (changed(deschedulingInterval="5m", deschedulingIntervalCronExpression="0 3 * * *"), "both set"),
        (changed(maxNoOfPodsToEvictTotal=-1), "must be a whole number"),
        (changed(profiles=[{"name": "p"}]), "enables no plugin"),
        (changed(profiles=[{"name": "p", "plugins": {"balance": {"enabled": ["Defrag"]}}}]), 'unknown plugin "Defrag"'),
        (
            changed(profiles=[{"name": "p", "plugins": {"deschedule": {"enabled": ["LoadAware"]}}}]),
            "known there: PodLifeTime, ",
        ),
        (
            changed(profiles=[{"name": "p", "plugins": {"deschedule": {"enabled": ["PodLifeTimes"]}}}]),
            'unknown plugin "PodLifeTimes"; known: DefaultEvictor, '
            "Defragmentation, HighNodeUtilization, LoadAware, LowNodeUtilization",
        ),
        (
            changed(profiles=[{"name": "p", "pluginConfig": [{"name": "X"}], "plugins": {}}]),
            'unknown plugin "X"; known: DefaultEvictor, Defragmentation',
        ),
        (changed(nodeSelector="a b"), '"nodeSelector" must be like'),
    ],
)
def test_one_clear_line(text: str, problem: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load(text)
    message = str(caught.value)
    assert problem in message
    assert message.startswith("policy.yaml, line ")
    assert "\n" not in message


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"lowThresholds": {"gpu": 80}}, "must be below defragmentThresholds"),
        ({"defragmentThresholds": {"gpu": 95}}, "must be below defragmentThresholds"),
        ({"lowThresholds": {"gpu": 30, "cpu": 50}, "protectionThresholds": {"gpu": 95, "cpu": 40}}, r"\(cpu\)"),
        ({"lowThresholds": {"cpu": 30}}, "must have a percentage for gpu"),
        ({"ResourceType": "disk"}, "must be cpu, gpu, memory"),
        ({"coolDownTime": -1}, "must be a duration"),
        ({"evictableNamespaces": {"include": ["a"], "exclude": ["b"]}}, "either include or exclude"),
        ({"gpuResourceNames": []}, "must be a list of resource names"),
    ],
)
def test_arguments_of_defragmentation(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        policy(arguments)


def test_defaults_of_defragmentation() -> None:
    from stromboli.descheduling.plugins.defragmentation import Defragmentation
    from stromboli.scheduling.configuration import Arguments

    args = Defragmentation(Arguments()).args
    assert (args.resource, args.low, args.defragment, args.protection) == (
        "gpu", {"gpu": 30.0}, {"gpu": 75.0}, {"gpu": 95.0},
    )  # fmt: skip
    assert args.cooldown == 600.0


def test_unknown_arguments_are_warnings() -> None:
    (warning,) = policy({"lowThreshold": {"gpu": 1}}).warnings
    assert 'unknown argument "lowThreshold" is ignored' in warning


def test_a_scheduler_that_spreads_pods_is_a_warning() -> None:
    registry = SchedulingRegistry(installed_plugins=(), installed_actions=())
    (spread,) = warnings_about(low_nodes(), registry.default())
    assert "binpack" in spread
    text = "actions: allocate\ntiers: [{plugins: [{name: binpack}, {name: nodeorder}]}]"
    (reserve,) = warnings_about(policy({"forPending": True}), registry.load(text))
    assert "action reserve" in reserve


def test_schedules() -> None:
    interval = Schedule(interval=600)
    assert interval.next_after(1000, origin=1000) == 1600  # first after one interval
    assert interval.next_after(1600, origin=1000) == 2200
    assert interval.next_after(1599, origin=1000) == 1600
    assert Schedule().next_after(0) is None
    nightly = Schedule(cron="0 3 * * *")
    assert nightly.next_after(0) == 3 * 3600
    assert nightly.next_after(3 * 3600) == 27 * 3600
