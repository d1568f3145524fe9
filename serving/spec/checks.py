"""Rules that span fields, one function each: what AWS refuses later is refused here, with its source.

A rule is `ModelSpec → problems`; `MODEL_RULES` lists them. It says (key, got, allowed, fix, source);
the file is added by the caller, so that a rule knows nothing of files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from serving.errors import Problem
from serving.spec.manifest import LockedVersion
from serving.spec.model import HostingMode, ModelSpec, TensorSpec, TritonRuntime, VllmRuntime
from serving.spec.stage import SLOTS, StageModel, StageSpec, endpoint_name

Finding = tuple[str, str, str, str, str]
Rule = Callable[[ModelSpec], Iterable[Finding]]

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_SEMVER = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")
_SAGEMAKER_NAME_CHARS = 63
_ROUTE = re.compile(r"/v1(/[a-z][a-z0-9-]*)+", re.ASCII)
_MAX_CAPTURE_PERCENT = 100
_DAY_S = 86_400
_RETENTION_DAYS = (
    1,
    3,
    5,
    7,
    14,
    30,
    60,
    90,
    120,
    150,
    180,
    365,
    400,
    545,
    731,
    1096,
    1827,
    2192,
    2557,
    2922,
    3288,
    3653,
)
_ENDPOINT_API = "AWS API_CreateEndpointConfig"


def name_is_usable(model: ModelSpec) -> Iterator[Finding]:
    """A name becomes part of an endpoint name and an S3 key."""
    if not _NAME.fullmatch(model.name):
        yield "name", repr(model.name), "lower-case letters, digits and _", "rename the model and its folder", ""
    longest = endpoint_name("staging", model.slug)
    if len(longest) > _SAGEMAKER_NAME_CHARS:
        yield "name", f"{len(longest)} characters in {longest}", "at most 63", "shorten the name", _ENDPOINT_API


def versions_are_semantic(model: ModelSpec) -> Iterator[Finding]:
    """The registry orders versions by semantic version."""
    if not model.versions:
        yield "versions", "none", 'at least one [versions."X.Y.Z"]', "add the trained version", ""
    for version in model.versions:
        if not _SEMVER.fullmatch(version):
            yield f"versions.{version}", repr(version), "X.Y.Z", "name it by semantic version", "semver.org"


def budget_fits_the_p99(model: ModelSpec) -> Iterator[Finding]:
    """The parts of the p99 add up to at most the p99; fetching an image has its own budget."""
    budget = model.budget
    for key, value in (("invoke_ms", budget.invoke_ms), ("overhead_ms", budget.overhead_ms)):
        if value <= 0:
            yield f"budget.{key}", str(value), "above 0", "give it a share of the p99", ""
    spent = budget.feature_read_ms + budget.invoke_ms + budget.overhead_ms
    if spent > model.slo.p99_ms:
        yield "budget", f"{spent:g} ms in all", f"at most slo.p99_ms = {model.slo.p99_ms:g}", "shrink a part", ""
    if budget.deadline_ms < model.slo.p99_ms:
        yield (
            "budget.deadline_ms",
            f"{budget.deadline_ms:g}",
            f"at least {model.slo.p99_ms:g}",
            "raise the deadline",
            "",
        )


def batching_leaves_time(model: ModelSpec) -> Iterator[Finding]:
    """A delay above a quarter of the p99 spends the budget on waiting (docs/serving.md)."""
    runtime = model.runtime
    if not isinstance(runtime, TritonRuntime):
        return
    limit_ms = model.slo.p99_ms / 4
    if not 0 <= runtime.max_queue_delay_ms <= limit_ms:
        got = f"{runtime.max_queue_delay_ms:g}"
        yield "runtime.max_queue_delay_ms", got, f"0 to {limit_ms:g} (a quarter of slo.p99_ms)", "shorten the delay", ""
    if runtime.max_batch_size < max(1, model.api.max_candidates):
        allowed = f"at least {max(1, model.api.max_candidates)} (the largest legal request)"
        yield "runtime.max_batch_size", str(runtime.max_batch_size), allowed, "raise the cap", ""
    if runtime.max_queue_size < runtime.max_batch_size:
        allowed = f"at least runtime.max_batch_size = {runtime.max_batch_size}"
        yield "runtime.max_queue_size", str(runtime.max_queue_size), allowed, "raise the queue bound", ""


def device_fits_the_instance(model: ModelSpec) -> Iterator[Finding]:
    """A GPU model needs a GPU instance; there is no 2xA100 instance type, only p4d/p4de with eight."""
    yield from _instance(model, "hosting.instance_type", model.hosting.instance_type)


def _instance(model: ModelSpec, key: str, got: str) -> Iterator[Finding]:
    wants = isinstance(model.runtime, VllmRuntime) or model.runtime.device == "gpu"
    if wants and not got.startswith(("ml.g", "ml.p")):
        yield key, got, "an ml.g* or ml.p* type", "choose a GPU type", ""
    if not got.startswith("ml."):
        yield key, got, "an ml.* type", "prefix it", _ENDPOINT_API


def promises_are_possible(model: ModelSpec) -> Iterator[Finding]:
    """Traffic and time are above nought, and the route is a path below the API's version."""
    for key, value in (("slo.peak_qps", model.slo.peak_qps), ("slo.p99_ms", model.slo.p99_ms)):
        if value <= 0:
            yield key, f"{value:g}", "above 0", "say what is promised", ""
    if not _ROUTE.fullmatch(model.api.route):
        yield "api.route", repr(model.api.route), "/v1/ and lower-case words with - and /", "correct it", ""


def counts_are_legal(model: ModelSpec) -> Iterator[Finding]:
    """A plain real-time variant cannot scale to zero: only async endpoints and inference components can."""
    hosting = model.hosting
    lowest = 0 if hosting.mode is not HostingMode.REALTIME else 1
    if hosting.min_count < lowest:
        source = "AWS endpoint-auto-scaling-zero-instances"
        yield "hosting.min_count", str(hosting.min_count), f"at least {lowest}", "use mode async or components", source
    if hosting.max_count < max(1, hosting.min_count):
        allowed = f"at least {max(1, hosting.min_count)}"
        yield "hosting.max_count", str(hosting.max_count), allowed, "raise it", ""
    if hosting.scaling.target_concurrency <= 0:
        got = f"{hosting.scaling.target_concurrency:g}"
        yield "hosting.scaling.target_concurrency", got, "above 0", "set what one instance carries", ""


def timeouts_are_in_range(model: ModelSpec) -> Iterator[Finding]:
    """SageMaker takes 60 to 3,600 s for start-up and download."""
    for key in ("startup_timeout_s", "download_timeout_s"):
        value = getattr(model.hosting, key)
        if not 60 <= value <= 3600:  # noqa: PLR2004 # AWS's own range, said in the docstring
            yield f"hosting.{key}", str(value), "60 to 3600", "correct it", _ENDPOINT_API


def features_have_defaults(model: ModelSpec) -> Iterator[Finding]:
    """A row that is missing is answered with its defaults, one a field."""
    for index, view in enumerate(model.features):
        key = f"features[{index}]"
        if len(view.defaults) != len(view.fields):
            yield (
                f"{key}.defaults",
                f"{len(view.defaults)} values",
                f"{len(view.fields)}, one a field",
                "complete it",
                "",
            )
        if len(set(view.fields)) != len(view.fields):
            yield f"{key}.fields", "a name twice", "distinct names", "rename one", ""
        if view.max_age_s <= 0:
            yield f"{key}.max_age_s", f"{view.max_age_s:g}", "above 0", "say when a row is stale", ""


def tensors_are_sound(model: ModelSpec) -> Iterator[Finding]:
    """Names are distinct, dimensions positive or -1, ranges ascending."""
    for section, tensors in (("inputs", model.inputs), ("outputs", model.outputs)):
        if not tensors:
            yield section, "none", "at least one tensor", f"add [[{section}]]", ""
        if len({tensor.name for tensor in tensors}) != len(tensors):
            yield section, "a name twice", "distinct names", "rename one", ""
        for index, tensor in enumerate(tensors):
            yield from _tensor(f"{section}[{index}]", tensor)


def _tensor(key: str, tensor: TensorSpec) -> Iterator[Finding]:
    if any(size != -1 and size < 1 for size in tensor.shape) or not tensor.shape:
        yield (
            f"{key}.shape",
            str(list(tensor.shape)),
            "dimensions of 1 or more, or -1",
            "correct it",
            "Triton model_config",
        )
    if tensor.range is not None and tensor.range[0] >= tensor.range[1]:
        yield f"{key}.range", str(list(tensor.range)), "[low, high] with low < high", "swap them", ""


def thresholds_name_labels(model: ModelSpec) -> Iterator[Finding]:
    """A threshold stands for a label that the model gives, between 0 and 1."""
    for section in ("block_above", "review_above"):
        for label, value in getattr(model.api, section).items():
            key = f"api.{section}.{label}"
            if label not in model.api.labels:
                yield key, repr(label), f"one of {', '.join(model.api.labels)}", "name a label of api.labels", ""
            if not 0 <= value <= 1:
                yield key, f"{value:g}", "0 to 1", "correct it", ""


def ramp_only_rises(model: ModelSpec) -> Iterator[Finding]:
    """A ramp only adds units (docs/api.md); a share of 1 is a promotion, not a test."""
    ramp = model.release.ramp
    if not ramp or list(ramp) != sorted(set(ramp)) or not all(0 < share < 1 for share in ramp):
        yield "release.ramp", str(list(ramp)), "ascending shares above 0 and below 1", "order it", ""
    if model.release.min_uplift < 0:
        yield "release.min_uplift", f"{model.release.min_uplift:g}", "0 or more, relative", "correct it", ""


def capture_is_a_percentage(model: ModelSpec) -> Iterator[Finding]:
    """Data capture samples 0 to 100 percent; M of N windows needs M ≤ N."""
    drift = model.drift
    if not 0 <= drift.capture_percent <= _MAX_CAPTURE_PERCENT:
        yield "drift.capture_percent", str(drift.capture_percent), "0 to 100", "correct it", _ENDPOINT_API
    if not 1 <= drift.alarm_windows <= drift.of_windows:
        yield "drift.alarm_windows", str(drift.alarm_windows), f"1 to of_windows = {drift.of_windows}", "correct it", ""


def windows_can_be_scheduled(model: ModelSpec) -> Iterator[Finding]:
    """A drift window is the period of its alarm and the rate of its schedule: whole minutes, at most a day."""
    window_s = model.drift.window_s
    if not 0 < window_s <= _DAY_S or window_s % 60 or _DAY_S % window_s:
        allowed = f"whole minutes that divide a day ({_DAY_S} s)"
        yield "drift.window_s", str(window_s), allowed, "choose 3600, or another", "AWS API_PutMetricAlarm, Period"


MODEL_RULES: tuple[Rule, ...] = (
    name_is_usable,
    versions_are_semantic,
    tensors_are_sound,
    batching_leaves_time,
    budget_fits_the_p99,
    device_fits_the_instance,
    counts_are_legal,
    timeouts_are_in_range,
    features_have_defaults,
    thresholds_name_labels,
    ramp_only_rises,
    capture_is_a_percentage,
    promises_are_possible,
    windows_can_be_scheduled,
)


def model_problems(model: ModelSpec, *, file: str, folder: str) -> list[Problem]:
    """Run every rule on a model; `folder` is the name its folder has."""
    problems = [Problem(file, *finding) for rule in MODEL_RULES for finding in rule(model)]
    if model.name != folder:
        problems.append(Problem(file, "name", repr(model.name), f"{folder!r}, the folder's name", "make them the same"))
    return problems


def stage_problems(
    stage: StageSpec,
    models: Mapping[str, ModelSpec],
    locks: Mapping[str, Mapping[str, LockedVersion]],
    *,
    file: str,
    stem: str,
    unread: Collection[str] = (),
) -> list[Problem]:
    """Check a stage against the models it names and the digests that are locked.

    What `unread` names, and a model that `locks` lacks, has a broken file that is told already: no second problem here.
    """
    problems: list[Problem] = []

    def add(key: str, got: str, allowed: str, fix: str, source: str = "") -> None:
        problems.append(Problem(file, key, got, allowed, fix, source))

    if stage.name != stem:
        add("name", repr(stage.name), f"{stem!r}, the file's name", "make them the same")
    problems += (Problem(file, *finding) for finding in _place(stage))
    for name, entry in ((name, entry) for name, entry in stage.models.items() if name not in unread):
        key = f"models.{name}"
        if name not in models:
            known = ", ".join(sorted({*models, *unread}))
            add(key, repr(name), f"one of {known}", "name a model that exists")
            continue
        model = models[name]
        if model.hosting.mode is not HostingMode.REALTIME:
            add(key, f"mode {model.hosting.mode}", "mode realtime", "leave it out of stages until its construct exists")
        for slot in SLOTS:
            _check_slot(add, f"{key}.versions.{slot}", getattr(entry.versions, slot), model, locks.get(name))
        for finding in _override_findings(entry, model, key=key):
            add(*finding)
    return problems


def _override_findings(entry: StageModel, model: ModelSpec, *, key: str) -> Iterator[Finding]:
    lowest = entry.min_count if entry.min_count is not None else model.hosting.min_count
    highest = entry.max_count if entry.max_count is not None else model.hosting.max_count
    if not 1 <= lowest <= highest:
        yield f"{key}.min_count", f"{lowest} (max_count {highest})", "1 to max_count", "correct one of them", ""
    if entry.instance_type is not None:
        yield from _instance(model, f"{key}.instance_type", entry.instance_type)
    if entry.deadline_ms is not None and entry.deadline_ms < model.slo.p99_ms:
        got = f"{entry.deadline_ms:g}"
        yield f"{key}.deadline_ms", got, f"at least {model.slo.p99_ms:g}", "raise the deadline", ""
    if entry.capture_percent is not None and not 0 <= entry.capture_percent <= _MAX_CAPTURE_PERCENT:
        got = str(entry.capture_percent)
        yield f"{key}.capture_percent", got, "0 to 100", "give a percentage; 0 turns it off", ""


def _place(stage: StageSpec) -> Iterator[Finding]:
    """Where a stage is, and how long its logs are kept."""
    if not re.fullmatch(r"\d{12}", stage.account):
        yield "account", repr(stage.account), "12 digits", "give the AWS account id", ""
    zones = stage.availability_zones
    if not zones or len(set(zones)) < len(zones) or not all(zone.startswith(stage.region) for zone in zones):
        allowed = f"different zones of {stage.region}, at least one"
        yield "availability_zones", str(list(zones)), allowed, "name zones of the region", ""
    if stage.log_retention_days not in _RETENTION_DAYS:
        allowed = f"one of {', '.join(map(str, _RETENTION_DAYS))}"
        yield "log_retention_days", str(stage.log_retention_days), allowed, "choose one", "AWS API_PutRetentionPolicy"


def _check_slot(
    add: Callable[[str, str, str, str], None],
    key: str,
    version: str,
    model: ModelSpec,
    locked: Mapping[str, LockedVersion] | None,
) -> None:
    if version not in model.versions:
        known = ", ".join(sorted(model.versions))
        add(key, repr(version), f"one of {known}", f'add [versions."{version}"] or name another')
    elif locked is not None and version not in locked:
        fix = f"run streamhub package {model.name} --version {version} --lock and commit the lock"
        add(key, f"{version}, whose digest is not locked", "a version in model.lock.json", fix)
