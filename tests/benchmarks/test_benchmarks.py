"""The benchmarks run, and their figures add up. How fast they are is not asked here."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import pkgutil
import sys
from pathlib import Path
from types import ModuleType
from unittest import mock

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", BENCHMARKS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return module


starvation = load("starvation")
reserve = load("reserve")
queue_locks = load("queue_locks")
loop_lag = load("loop_lag")
together = load("together")
growth = load("growth")
cliffs = load("cliffs")
plugins = load("plugins")
tenants = load("tenants")
defragmentation = load("defragmentation")
sys.modules["defragmentation"] = defragmentation  # which the model imports, as from a script beside it
model = load("defragmentation_model")
descheduler_plugins = load("descheduler_plugins")


def test_a_week_is_as_full_as_was_asked_for_and_always_the_same() -> None:
    week = starvation.generate(days=1, seed=3, nodes=4, load=0.9)
    assert week == starvation.generate(days=1, seed=3, nodes=4, load=0.9)
    assert week != starvation.generate(days=1, seed=4, nodes=4, load=0.9)
    largest = 4 * 8 * 3600  # CPU-seconds of a small job; the last one drawn may go beyond by that
    assert 0.9 - 0.001 <= week.load <= 0.9 + largest / week.capacity
    assert sum(work.big for work in week.works) == 3
    assert all(0 <= work.at <= week.span for work in week.works)


def test_a_small_day_adds_up_and_big_jobs_wait_less_where_nodes_are_set_aside() -> None:
    week = starvation.generate(days=0.25, seed=5, nodes=5, load=0.95)
    outcomes = [starvation.simulate(week, way, threshold=1800.0) for way in starvation.WAYS]
    for outcome in outcomes:
        assert set(outcome.waits) == {work.name for work in week.works}
        # A job starts in the first cycle after its submission at the soonest.
        assert min(outcome.waits.values()) >= 0
        # Everything that was asked for was done, and beside it only what evictions made necessary again.
        done = sum((end - start) * cpu for start, end, cpu in outcome.busy)
        asked = sum(work.cpu_seconds for work in week.works)
        assert done == asked if not outcome.evictions else done > asked
        assert 0 < outcome.used <= week.capacity
        hours = list(starvation.by_hour(outcome, week))
        assert sum(hours) * 3600 * 5 * starvation.CPUS == pytest.approx(outcome.used)
        assert max(hours) <= 1 + 1e-9
    longest = [outcome.figures(week)["big_longest_wait"] for outcome in outcomes]
    assert longest[1] < longest[0]
    assert longest[2] < longest[0]
    told = starvation.report(week, outcomes)
    assert all(f"\n{way}  " in told for way in starvation.WAYS)


def test_a_percentile_is_a_value_that_so_many_do_not_exceed() -> None:
    waits = [float(number) for number in range(1, 21)]
    assert starvation.percentile(waits, 95) == 19.0
    assert starvation.percentile(waits, 100) == 20.0
    assert starvation.percentile([7.0], 95) == 7.0


def test_every_pod_of_every_starving_gang_gets_a_node() -> None:
    figures = reserve.measure(20, 4, 5)
    assert figures["reserved"] == 20
    assert {"reserve_ms", "allocate_ms", "close_ms"} <= set(figures)


def test_every_queue_of_the_benchmark_gets_its_nodes() -> None:
    figures = queue_locks.measure(60, 4, 0.05, 1)
    assert 4 <= figures["locked"] <= 30
    assert {"search_ms", "first_ms", "again_ms"} <= set(figures)


def test_the_scheduler_whose_loop_is_watched_binds_everything() -> None:
    figures = asyncio.run(loop_lag.measure(nodes=4, gangs=3, size=5))
    assert figures["bound"] == 15
    assert figures["longest_wait_ms"] >= 0


def test_a_world_of_the_benchmark_is_judged_and_its_files_say_how_to_run_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seed, verdict = together.run(9)
    assert seed == 9
    assert verdict.judged["order"] > 0
    together.write(9, tmp_path)
    told = capsys.readouterr().out
    for name in ("9-with-reserve", "9-without-reserve"):
        assert f"stromboli simulate {tmp_path / name / 'scenario.yaml'} " in told
        assert (tmp_path / name / "scheduler.yaml").exists()


def test_growth_is_measured_at_each_size(capsys: pytest.CaptureFixture[str]) -> None:
    growth.main(["--pods", "20", "--jobs", "3", "--doublings", "1", "--repeat", "1", "--output", "json"])
    figures = json.loads(capsys.readouterr().out)
    assert [row["pods"] for row in figures["passes"]] == [20, 40]
    assert [(row["jobs"], row["finished"]) for row in figures["simulations"]] == [(3, 3), (6, 6)]
    assert growth.table(figures["simulations"]).splitlines()[0].split()[0] == "jobs"


def test_a_month_of_gpu_jobs_is_always_the_same_and_adds_up() -> None:
    works = defragmentation.generate(days=0.5, nodes=6, load=0.95, seed=2)
    assert works == defragmentation.generate(days=0.5, nodes=6, load=0.95, seed=2)
    assert {work.gpus for work in works} <= {1, 2, 4, 8}
    without, with_moves = (defragmentation.simulate(works, 6, 0.5, variant) for variant in ("none", "eager"))
    assert without.moves == {"planned": 0, "succeeded": 0, "failed": 0}
    assert with_moves.moves["succeeded"] <= with_moves.moves["planned"]
    for outcome in (without, with_moves):
        assert 0 < outcome.allocation <= 1
        assert outcome.jobs == len(works)


def test_results_of_a_month_can_be_kept_and_shown_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*arguments: str) -> str:
        assert defragmentation.main(arguments) == 0
        return capsys.readouterr().out

    kept = tmp_path / "kept.json"
    kept.write_text(run("--days", "0.1", "--nodes", "4", "--variant", "none", "--variant", "thresholds:60",
                        "--variant", "eager:2", "--output", "json"))  # fmt: skip
    shown = run("--read", str(kept)).splitlines()
    assert [line.split()[0] for line in shown[1:4]] == ["none", "thresholds:60", "eager:2"]


def test_the_model_of_the_month_waits_as_the_simulation_does() -> None:
    works = defragmentation.generate(days=1, nodes=8, load=0.97, seed=3)
    for variant, planner in (("none", None), ("thresholds:51", model.planner_of("thresholds:51"))):
        simulated = defragmentation.simulate(works, 8, 1, variant).waits[8]
        modelled = model.Model(works, 8, 1, planner).run().waits()[8]
        assert simulated["jobs"] == len(modelled)
        assert sum(modelled) / len(modelled) == pytest.approx(simulated["mean"], rel=0.05)


def test_the_model_compares_settings(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = ("thresholds:76", "pending:5", "eager", "eager:2")
    options = [each for variant in chosen for each in ("--variant", variant)]
    assert model.main(["--days", "1", "--nodes", "8", "--load", "0.95", "--seed", "2", *options]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:-1]] == ["none", *chosen]


def test_plans_of_a_large_cluster_are_measured() -> None:
    pods, moves, seconds = defragmentation.plan_seconds(40, repeat=1)
    assert (pods, moves > 0, seconds > 0) == (400, True, True)


@pytest.mark.parametrize("case", [*cliffs.CASES, *cliffs.PLANS])
def test_every_cliff_is_a_cluster_with_decisions(case: str) -> None:
    assert cliffs.measured_case(case, 20, 1)["decisions"] > 0


@pytest.mark.parametrize("steps", ["backfill.counted_on.may_count_on", "starvation.node_choice.NodeChoice._has_room"])
def test_a_gang_on_lent_room_looks_at_twice_as_many_borrowers_in_twice_the_steps(
    monkeypatch: pytest.MonkeyPatch, steps: str
) -> None:
    taken = []
    for size in (32, 64):
        counted = mock.Mock(side_effect=pkgutil.resolve_name(f"stromboli.scheduling.{steps}"))
        with monkeypatch.context() as patched:
            patched.setattr(f"stromboli.scheduling.{steps}", lambda *given, c=counted: c(*given))
            cliffs.measured_case("lending", size, 1)
        taken.append(counted.call_count)
    assert 0 < taken[1] < 2.5 * taken[0]


def test_pods_of_a_team_are_bound_beside_a_crowd_in_their_first_cycle() -> None:
    measured = tenants.Cycles(20).measure(5)
    assert 0 < measured["median"] <= measured["p99"] <= measured["cycle"]
    # 0.5 s alone; beside the others 1.2 s, with cycles of 1 s: at most 1.5 s.
    alone, beside = {"p99": 0.5, "cycle": 0.1}, {"p99": 1.2, "cycle": 1.0}
    assert tenants.is_within_bound(alone, beside)
    assert not tenants.is_within_bound(alone, {**beside, "p99": 1.6})


@pytest.mark.parametrize("name", list(plugins.PLUGINS))
def test_plugins_that_are_not_built_in_are_measured(name: str) -> None:
    figures = plugins.measure(name, plugins.Case(8, 40, 4, [1], 1, "nodeorder", None), 1)
    assert figures["off_bound"] == figures["on_bound"] == 40


def test_each_plugin_of_the_descheduler_finds_something_to_do() -> None:
    objects = descheduler_plugins.cluster_of(100)
    found = {
        plugin: descheduler_plugins.measure(objects, plugin, *more)[1] for plugin, *more in descheduler_plugins.RUNS
    }
    assert found["PodLifeTime"] == 1000
    idle = {"RemovePodsHavingTooManyRestarts", "RemoveFailedPods"}
    assert {plugin for plugin, pods in found.items() if not pods} == idle
