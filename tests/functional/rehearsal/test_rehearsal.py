"""Whole releases, played: each scenario ends as its truth says, whatever goes wrong around it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from scipy import stats

from cli.rehearsal.command import baseline_of
from cli.rehearsal.play import BEGINS, Play
from cli.rehearsal.scenario import SCENARIOS, fault_of
from cli.rehearsal.score import Checkpoint, Settings, document_of, exit_code
from serving.errors import ReleaseError
from serving.release.audit import AuditEntry
from serving.release.decide import DecisionKind, decide
from serving.release.policy import policy_for
from serving.release.state import ReleaseState
from serving.spec.codec import from_json, to_json
from serving.spec.load import Project, load_project

MODEL, VERSION = "recommendation_ranker", "3.0.0"
ROOT = Path(__file__).parents[3]

Begin = Callable[..., Play]


@pytest.fixture(name="project", scope="module")
def project_fixture() -> Project:
    return load_project(ROOT)


@pytest.fixture(name="begin", scope="module")
def begin_fixture(project: Project) -> Begin:
    model = project.model(MODEL)
    # two hours of canary, then a whole day
    model = replace(model, release=replace(model.release, min_stage_hours=2.0))

    def begin(scenario: str, *faults: str, seed: int = 1, start: Checkpoint | None = None) -> Play:
        settings = Settings(
            model=MODEL,
            version=VERSION,
            stage="dev",
            scenario=scenario,
            seed=seed,
            peak_qps=2_000.0,
            faults=tuple(map(fault_of, faults)),
        )
        baseline = baseline_of(project, model, VERSION)
        return Play(settings, model=model, stage=project.stage("dev"), baseline=baseline, start=start)

    return begin


@pytest.fixture(name="better", scope="module")
def better_fixture(begin: Begin) -> Checkpoint:
    return begin("better").run(1.2)


def states(end: Checkpoint) -> list[str]:
    return [entry.record.state.value for entry in end.entries]


def decided(end: Checkpoint) -> AuditEntry:
    """Give the last move that a decision made."""
    return [entry for entry in end.entries if entry.decision is not None][-1]


def test_a_better_version_climbs_the_ramp_and_is_promoted_with_all_weights(better: Checkpoint) -> None:
    assert states(better) == ["registered", "canary", "decision", "promoting", "promoted"]
    assert [hour.weight for hour in better.hours[:2]] == [0.1, 0.1]
    assert (better.hours[-1].weight, better.hours[-1].share, better.hours[-1].status) == (1.0, 1.0, "InService")
    assert better.entries[-1].record.production_version == VERSION
    assert exit_code(better) == 0


def test_the_bounds_hold_the_true_uplift_at_every_hour(better: Checkpoint) -> None:
    looks = [hour for hour in better.hours if hour.uplift_lower is not None and hour.uplift_upper is not None]
    assert len(looks) > 20
    truth = SCENARIOS["better"].uplift
    assert all((hour.uplift_lower or 0) < truth < (hour.uplift_upper or 0) for hour in looks)


def test_every_move_of_the_record_can_be_decided_again(better: Checkpoint) -> None:
    for entry in better.entries:
        if entry.decision is not None:
            assert entry.before is not None
            assert decide(entry.before, entry.evidence, entry.policy, entry.record.updated_at) == entry.decision


@pytest.mark.parametrize(("scenario", "gate"), [("worse", "harm"), ("slow", "p99"), ("broken", "errors")])
def test_a_version_that_harms_is_rolled_back_by_the_gate_that_saw_it(begin: Begin, scenario: str, gate: str) -> None:
    end = begin(scenario).run(0.1)
    move = decided(end)
    assert move.decision is not None
    assert move.decision.kind is DecisionKind.ROLL_BACK
    assert [reason.gate for reason in move.decision.reasons] == [gate]
    assert (states(end)[-1], end.hours[-1].weight) == ("rolled-back", 0.0)
    assert exit_code(end) == 3


def test_a_version_that_changes_nothing_is_not_promoted(begin: Begin) -> None:
    end = begin("same").run(0.2)
    assert states(end)[-1] == "inconclusive"
    assert (end.entries[-1].record.production_version, exit_code(end)) == ("2.0.0", 4)


def test_inputs_that_change_on_day_4_raise_the_drift_alarm_within_its_windows(begin: Begin, project: Project) -> None:
    end = begin("drifting").run(3.1)
    states_by_day = [(hour.day, hour.drift_alarm) for hour in end.hours]
    rules = project.model(MODEL).drift
    least_days = 3 + rules.alarm_windows * rules.window_s / 86_400
    assert {alarm for day, alarm in states_by_day if 0.2 < day <= 3} == {"OK"}
    assert min(day for day, alarm in states_by_day if alarm == "ALARM") == pytest.approx(least_days, abs=0.001)
    assert end.reports[-1].features[0].drifted


def test_a_promotion_waits_for_instances_and_comes_when_there_are_some(begin: Begin) -> None:
    end = begin("better", "capacity@0.8").run(1.4)
    promoted = next(entry.record for entry in end.entries if entry.record.state is ReleaseState.PROMOTING)
    assert promoted.updated_at >= BEGINS + timedelta(days=0.8 + 0.5)
    assert any("of the 2 instances" in note for note in end.notes)
    assert states(end)[-1] == "promoted"


def test_a_deployment_that_its_alarm_takes_back_holds_the_release_up_and_nothing_else(
    begin: Begin, better: Checkpoint
) -> None:
    end = begin("better", "deployment@0.08").run(1.3)
    assert any("taken back by its alarm" in note for note in end.notes)
    assert states(end) == states(better)
    canary_ends = [entry.record.updated_at for entry in end.entries][2]
    assert canary_ends > [entry.record.updated_at for entry in better.entries][2], "it was Updating when due"


@pytest.mark.parametrize("fault", ["evidence@0.06", "silence@0.05", "clock@0.06"])
def test_a_release_goes_on_after_what_it_met(begin: Begin, better: Checkpoint, fault: str) -> None:
    end = begin("better", fault).run(1.7)
    assert states(end) == states(better)
    moments = [entry.record.updated_at for entry in end.entries]
    assert moments == sorted(moments)


@pytest.mark.parametrize("day", [0.05, 0.9])
def test_a_restart_in_the_middle_ends_the_same(begin: Begin, better: Checkpoint, day: float) -> None:
    kept = from_json(to_json(begin("better").run(day)), Checkpoint)
    end = begin("better", start=kept).run(1.2)
    assert to_json(end) == to_json(better)


def test_the_same_seed_is_the_same_record_in_processes_with_other_hashes(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from cli.main import main; main()", "local", "rehearse", MODEL]
    command += ["--version", VERSION, "--json", "--days", "0.25", "--qps", "200", "--seed", "7", "--root", str(ROOT)]
    said = []
    for hashes in ("1", "2"):
        report = tmp_path / f"{hashes}.html"
        run = subprocess.run(
            [*command, "--report", str(report)],
            env={**os.environ, "PYTHONHASHSEED": hashes},
            cwd=ROOT,
            capture_output=True,
            check=False,
        )
        assert run.returncode == 5, run.stderr.decode()
        said.append((run.stdout, report.read_bytes()))
    assert said[0] == said[1]


def test_another_seed_is_another_audience(begin: Begin) -> None:
    first, second = (document_of(begin("better", seed=seed).run(0.05))["hours"] for seed in (1, 2))
    assert first[0]["impressions"] != second[0]["impressions"]


def test_a_version_that_production_holds_is_refused_in_the_controllers_words(begin: Begin, project: Project) -> None:
    del begin
    model = project.model(MODEL)
    settings = Settings(model=MODEL, version="2.0.0", stage="dev", scenario="same", seed=0, peak_qps=1.0)
    with pytest.raises(ReleaseError, match="is what production serves already"):
        Play(settings, model=model, stage=project.stage("dev"), baseline=baseline_of(project, model, "2.0.0"))


@pytest.mark.parametrize("text", ["", "capacity", "capacity@", "capacity@-1", "capacity@inf", "flood@1", "clock@nan"])
def test_a_fault_that_is_none_is_refused_with_all_kinds(text: str) -> None:
    with pytest.raises(ReleaseError, match="allowed capacity, deployment, evidence, clock, silence"):
        fault_of(text)


@pytest.mark.soak
def test_of_20_releases_of_no_effect_no_more_are_promoted_than_the_policy_allows(project: Project) -> None:
    model, promoted, runs = project.model(MODEL), 0, 20
    for seed in range(runs):
        settings = Settings(model=MODEL, version=VERSION, stage="dev", scenario="same", seed=seed, peak_qps=100.0)
        play = Play(
            settings, model=model, stage=project.stage("dev"), baseline=baseline_of(project, model, VERSION), start=None
        )
        promoted += play.run(3).entries[-1].record.state is ReleaseState.PROMOTED
    assert promoted <= stats.binom.ppf(0.999, runs, policy_for(model.release).alpha)
