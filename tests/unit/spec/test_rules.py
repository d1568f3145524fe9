"""Rules on what this project wants of a spec, and warnings; what AWS refuses is in test_refused_specs.py."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.spec import (
    DeploymentSpec,
    HostingMode,
    ImageOverride,
    ModelSpec,
    PyTorchRuntime,
    ScheduleSpec,
    StepPolicySpec,
    StepSpec,
    Strategy,
    TritonRuntime,
    in_stage,
)
from serving.spec.load import Project, load_project, parse
from serving.spec.manifest import LockedVersion
from serving.spec.rules import MODEL_RULES, model_warnings, stage_problems, stage_warnings
from serving.spec.rules.capture import busiest_qps, capture_volume
from serving.spec.rules.deployment import total_wait_s
from serving.spec.rules.runtime import batch_fits_memory
from serving.spec.rules.scaling import steps_meet
from serving.spec.rules.schedules import expressions_are_legal, is_cron
from serving.spec.rules.stage_model import Placed, archives_fit_the_disk

RANKER = "models/recommendation_ranker/model.toml"

BROKEN = {
    "name_is_usable": ('name = "recommendation_ranker"', 'name = "Ranker 1"'),
    "versions_are_semantic": ('[versions."2.0.0"]', '[versions."2"]'),
    "tensors_are_sound": ("shape = [36]", "shape = [0]"),
    "batching_leaves_time": ("max_queue_delay_ms = 0.0", "max_queue_delay_ms = 4.0"),
    "budget_fits_the_p99": ("invoke_ms = 8", "invoke_ms = 9"),
    "features_have_defaults": ("max_age_s = 3600", "max_age_s = 0"),
    "thresholds_name_labels": ('unit = "user_id"', 'unit = "user_id"\nblock_above = { nsfw = 0.5 }'),
    "ramp_only_rises": ("ramp = [0.1, 0.5]", "ramp = [0.5, 0.1]"),
    "promises_are_possible": ("peak_qps = 15000", "peak_qps = 0"),
    "runtime_numbers_are_legal": ("max_queue_size = 4096", "max_queue_size = 4096\npreferred_batch_sizes = [1024]"),
    "batch_fits_memory": ("max_batch_size = 512", "max_batch_size = 65537"),
    "tensors_fit_the_backend": ('device = "cpu"', 'device = "cpu"\nbackend = "pytorch"'),
    "ragged_inputs_are_counted": ("shape = [36]", "shape = [-1]\nragged = true"),
    "ensemble_is_wired": ('device = "cpu"', 'device = "cpu"\nbackend = "ensemble"'),
    "licence_is_known": ('licence = "Apache-2.0"', 'licence = "mine"'),
    "conversions_fit_the_runtime": (
        '[versions."2.0.0"]',
        '[versions."2.0.0"]\nquantisation = { kind = "fp16", evaluation = "x", metric = "auc", max_loss = 2.0 }',
    ),
}


@pytest.fixture(scope="module", name="project")
def project_fixture(root: Path) -> Project:
    return load_project(root)


@pytest.fixture(name="ranker")
def ranker_fixture(project: Project) -> ModelSpec:
    return project.models["recommendation_ranker"]


@pytest.mark.parametrize(
    "rule", [rule for rule in MODEL_RULES if rule.__name__ in BROKEN], ids=lambda rule: rule.__name__
)
def test_each_rule_of_ours_refuses_its_broken_example_and_takes_the_whole_one(root: Path, rule: object) -> None:
    good, bad = BROKEN[rule.__name__]  # type: ignore[attr-defined]
    text = (root / RANKER).read_text()
    assert good in text
    assert list(rule(parse(text, ModelSpec, file=RANKER))) == []  # type: ignore[operator]
    assert list(rule(parse(text.replace(good, bad, 1), ModelSpec, file=RANKER))) != []  # type: ignore[operator]


def test_a_stage_is_held_to_the_models_own_rules_and_to_nothing_that_the_model_broke(project: Project) -> None:
    ranker, stage = project.models["recommendation_ranker"], project.stages["dev"]
    entry = stage.models[ranker.name]
    effective = in_stage(ranker, entry)
    assert (effective.hosting.instance_type, effective.hosting.max_count) == ("ml.c6i.large", 2)
    assert (effective.budget.deadline_ms, effective.drift.capture_percent) == (2000, 100)
    assert in_stage(ranker, replace(entry, instance_type=None)).hosting.instance_type == ranker.hosting.instance_type


def test_a_batch_endpoint_is_there_only_where_a_stage_names_it(project: Project) -> None:
    model = project.models["thumbnail_scorer"]
    assert model.hosting.batch is not None
    assert in_stage(model, project.stages["dev"].models[model.name]).hosting.batch is None


def test_types_of_eight_gpus_warn_of_their_quota_with_both_fleets_of_a_blue_green_update(project: Project) -> None:
    stage, model = project.stages["dev"], project.models["content_moderator"]
    entry = replace(stage.models[model.name], instance_type="ml.p4d.24xlarge", max_count=2)
    stage = replace(stage, models={model.name: entry})
    (told,) = stage_warnings(stage, project.models, project.locks, file="stages/dev.toml")
    # two slots of two instances, old and new fleet
    assert "a quota of 8 (ml.p4d.24xlarge for endpoint usage)" in told.allowed


def test_a_peak_above_the_largest_fleet_warns(ranker: ModelSpec) -> None:
    # Little's law: 20,000 a second x 8 ms = 160 at once, of 16 x 8 = 128
    slo = replace(ranker.slo, peak_qps=20_000)
    (told,) = model_warnings(replace(ranker, slo=slo), file=RANKER)
    assert (told.key, told.got) == ("slo.peak_qps", "20000 a second, 160 at once")
    assert model_warnings(ranker, file=RANKER) == []


def test_a_window_with_too_few_rows_warns(project: Project) -> None:
    stage, model = project.stages["dev"], project.models["thumbnail_scorer"]
    slow = replace(model, slo=replace(model.slo, peak_qps=0.1))
    entry = replace(stage.models[model.name], capture_percent=100)
    stage = replace(stage, models={model.name: entry})
    (told,) = stage_warnings(stage, {model.name: slow}, project.locks, file="stages/dev.toml")
    assert "360 rows a window" in told.got


def test_a_container_that_is_patched_no_more_warns_unless_the_image_is_ones_own(project: Project) -> None:
    stage, model = project.stages["dev"], project.models["recommendation_ranker"]
    scripted = replace(model, runtime=PyTorchRuntime(device="cpu"))
    stage = replace(stage, models={model.name: stage.models[model.name]})
    (told,) = stage_warnings(stage, {model.name: scripted}, project.locks, file="x")
    assert "2026-06-30" in told.allowed
    own = replace(stage, images={"pytorch-cpu": ImageOverride(uri="mine")})
    assert stage_warnings(own, {model.name: scripted}, project.locks, file="x") == []


def test_a_gpu_without_work_and_a_rolling_fleet_of_one_warn(project: Project) -> None:
    stage, model = project.stages["dev"], project.models["recommendation_ranker"]
    entry = replace(stage.models[model.name], instance_type="ml.g4dn.xlarge", min_count=1)
    rolling = replace(model.hosting, mode=HostingMode.ASYNC, deployment=DeploymentSpec(strategy=Strategy.ROLLING))
    stage = replace(stage, models={model.name: replace(entry, deployment=None)})
    told = stage_warnings(stage, {model.name: replace(model, hosting=rolling)}, project.locks, file="x")
    assert [(warning.key.rsplit(".", 1)[-1], warning.got) for warning in told] == [
        ("instance_type", "ml.g4dn.xlarge, whose 1 GPU does nothing"),
        ("min_count", "1 with rolling"),
    ]


def test_capture_volume_is_requests_by_bytes_in_base64(project: Project) -> None:
    model = project.models["thumbnail_scorer"]
    assert busiest_qps(model) == 500
    volume = capture_volume(model, percent=5, kept_days=30)
    assert volume.requests_a_day == 500 * 86_400 * 0.05
    # 96 x 96 x 3 bytes in, one FP32 out, a third more in base64, and the envelope
    a_request = (96 * 96 * 3 + 4) * 4 / 3 + 600
    assert volume.gb_a_day == pytest.approx(volume.requests_a_day * a_request / 1e9)
    assert volume.usd_a_month == pytest.approx(volume.gb_a_day * 30 * 0.023)


def test_an_archive_that_fills_the_disk_is_refused(project: Project) -> None:
    stage, model = project.stages["dev"], project.models["content_moderator"]
    entry = stage.models[model.name]
    for size_bytes, told in ((60_000_000_000, []), (63_000_000_000, ["125 GB, the disk of ml.g4dn.xlarge"])):
        locked = {"1.0.0": LockedVersion(sha256="0" * 64, size_bytes=size_bytes)}
        hosting = replace(in_stage(model, entry).hosting, download_timeout_s=3600)
        placed = Placed(
            stage=stage, entry=entry, model=replace(in_stage(model, entry), hosting=hosting), own=model, locked=locked
        )
        assert sorted({allowed for _, _, allowed, _, _ in archives_fit_the_disk(placed)}) == told


CRON_FIELDS = st.tuples(
    st.one_of(st.just("*"), st.integers(0, 59).map(str), st.integers(1, 59).map(lambda n: f"0/{n}")),
    st.one_of(st.just("*"), st.integers(0, 23).map(str), st.just("8-17")),
    st.integers(1, 12).map(str) | st.sampled_from(["JAN", "dec", "*", "JAN-MAR"]),
    st.sampled_from(["MON", "MON-FRI", "1", "7", "SAT,SUN", "2#1", "6L", "*"]),
    st.sampled_from(["*", "2027", "2027-2030"]),
)


@given(CRON_FIELDS)
def test_every_cron_of_the_guide_is_taken_with_one_question_mark_and_not_with_none(fields: tuple[str, ...]) -> None:
    minute, hour, month, weekday, year = fields
    assert is_cron(f"cron({minute} {hour} ? {month} {weekday} {year})")
    assert not is_cron(f"cron({minute} {hour} 1 {month} {weekday} {year})")
    assert not is_cron(f"cron({minute} {hour} ? {month} ? {year})")
    assert not is_cron(f"cron({minute} {hour} ? {month} {weekday})")


@pytest.mark.parametrize(
    "text",
    [
        "cron(60 * ? * MON *)",
        "cron(0 24 ? * MON *)",
        "cron(0 0 32 * ? *)",
        "cron(0 0 ? 13 MON *)",
        "cron(0 0 ? * MOO *)",
        "cron(0 0 ? * 8 *)",
        "cron(0/0 0 ? * MON *)",
        "cron(٣ 0 ? * MON *)",
        "0 0 ? * MON *",
        "rate(1 hour)",
        "cron()",
    ],
)
def test_values_out_of_their_field_are_refused(text: str) -> None:
    assert not is_cron(text)


@given(st.datetimes(datetime(2026, 1, 1), datetime(2100, 1, 1)), st.integers(-5, 5))  # noqa: DTZ001 # AWS takes it so
def test_a_single_peak_ends_after_it_starts(project: Project, start: datetime, hours: int) -> None:
    ranker = project.models["recommendation_ranker"]
    end = start + timedelta(hours=hours)
    schedule = ScheduleSpec(
        name="x",
        start=f"at({start.isoformat(timespec='seconds')})",
        end=f"at({end.isoformat(timespec='seconds')})",
        min_count=8,
    )
    scaling = replace(ranker.hosting.scaling, schedules=(schedule,))
    model = replace(ranker, hosting=replace(ranker.hosting, scaling=scaling))
    assert bool(list(expressions_are_legal(model))) == (hours <= 0)


@given(st.lists(st.integers(1, 100), min_size=0, max_size=19, unique=True), st.integers(0, 19))
def test_steps_that_meet_are_taken_and_a_gap_is_refused(project: Project, bounds: list[int], moved: int) -> None:
    ranker = project.models["recommendation_ranker"]
    edges: list[float] = [0.0, *sorted(map(float, bounds))]
    uppers = [*edges[1:], None]
    steps = [StepSpec(lower=low, upper=up, add=1) for low, up in zip(edges, uppers, strict=True)]

    def told(chosen: list[StepSpec]) -> bool:
        step = StepPolicySpec(metric="concurrency", threshold=10, steps=tuple(chosen))
        hosting = replace(ranker.hosting, scaling=replace(ranker.hosting.scaling, step=step))
        return bool(list(steps_meet(replace(ranker, hosting=hosting))))

    assert not told(steps)
    index = moved % len(steps)
    broken = [replace(step, lower=step.lower + 0.5) if at == index else step for at, step in enumerate(steps)]
    assert told(broken)


def test_an_update_waits_once_for_a_canary_and_for_each_step_of_a_linear_one() -> None:
    one = DeploymentSpec(strategy=Strategy.CANARY, step_percent=25, wait_s=600, termination_wait_s=300)
    assert total_wait_s(one) == 900
    assert total_wait_s(replace(one, strategy=Strategy.LINEAR)) == 4 * 600 + 300
    assert total_wait_s(replace(one, strategy=Strategy.ROLLING, step_percent=30)) == 4 * 600


def test_the_mode_of_a_model_changes_what_it_may_say(ranker: ModelSpec) -> None:
    asynchronous = replace(ranker, hosting=replace(ranker.hosting, mode=HostingMode.ASYNC, min_count=0))
    told = {key for rule in MODEL_RULES for key, *_ in rule(asynchronous)}
    assert told == {"hosting.scaling.target_backlog", "hosting.scaling.target_concurrency"}


@pytest.mark.parametrize(("max_count", "max_copies", "is_told"), [(3, 6, False), (2, 6, True), (2, 4, False)])
def test_components_that_do_not_fit_beside_each_other_at_their_most_warn(
    project: Project, *, max_count: int, max_copies: int, is_told: bool
) -> None:
    """Two components x copies x 2 accelerators, and a p4d has 8: 24 in 3 instances, 16 in 2."""
    stage, name = project.stages["prod"], "support_rag"
    entry = replace(stage.models[name], max_count=max_count, max_copies=max_copies)
    told = stage_warnings(replace(stage, models={name: entry}), project.models, project.locks, file="stages/prod.toml")
    found = [one for one in told if one.key == "models.support_rag.max_copies"]
    assert bool(found) is is_told
    assert all("2 components x 6 copies x 2 accelerators" in one.got for one in found)


@pytest.mark.parametrize(("height", "most"), [(1024, 256), (32, 65_536)])
def test_a_batch_is_bounded_by_its_bytes_where_rows_are_large(project: Project, height: int, most: int) -> None:
    """1024 x 1024 x 4 bytes are 4 MiB a row, of which a GiB holds 256 less what the answers take."""
    own = project.models["thumbnail_scorer"]
    (image,) = own.inputs
    assert isinstance(own.runtime, TritonRuntime)
    for rows, is_refused in ((most - 1, False), (most + 1, True)):
        wide = replace(image, shape=(height, height, 4))
        model = replace(own, inputs=(wide,), runtime=replace(own.runtime, max_batch_size=rows))
        assert bool(list(batch_fits_memory(model))) is is_refused


def test_captures_are_kept_two_weeks_or_as_logs_are_unless_the_stage_says(project: Project) -> None:
    stage = project.stages["staging"]
    assert replace(stage, log_retention_days=365).captures_kept_days == 14
    assert replace(stage, log_retention_days=3).captures_kept_days == 3
    assert replace(stage, log_retention_days=3, capture_retention_days=60).captures_kept_days == 60


@pytest.mark.parametrize(("kept_days", "is_told"), [(3, False), (2, True)])
def test_captures_are_kept_as_long_as_a_drift_alarm_looks_back(
    project: Project, *, kept_days: int, is_told: bool
) -> None:
    model, stage = project.models["content_moderator"], project.stages["staging"]
    daily = replace(model, drift=replace(model.drift, window_s=86_400, of_windows=3))
    models = {**project.models, model.name: daily}
    stage = replace(stage, capture_retention_days=kept_days)
    told = stage_problems(stage, models, project.locks, file="stages/staging.toml", stem="staging")
    assert [one.key for one in told] == ["capture_retention_days"] * is_told
