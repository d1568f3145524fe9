"""The document: its parts, their pace and troubles, its size, and the readers of endpoints, alarms and drift."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import orjson
import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber
from hypothesis import given
from hypothesis import strategies as st

from local.faults import Faults, make
from local.page import document as limits
from local.page.alarms import AlarmReader
from local.page.document import MAX_ALARMS, MAX_TARGETS, MAX_TEXT, MAX_VARIANTS, Problem, short, thinned
from local.page.drift import DriftReader
from local.page.endpoints import EndpointReader, known_endpoints
from local.page.state import OFTEN_S, Part, Sources, StateReader
from local.page.traffic import Target
from serving.errors import TelemetryError
from serving.spec import Slot
from serving.telemetry.drift import DriftReport, FeatureDrift, Level, Verdict, Window
from tests.fakes.page import NOW, RANKER, alarm, empty_state, endpoint, feature, full_state, release, variant, window
from tests.fakes.prediction import spec_of, stage_of

MIB = 1 << 20


def client(service: str) -> tuple[Any, Stubber]:
    made = boto3.client(  # type: ignore[call-overload]
        service,
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",  # noqa: S106 - nobody is called
    )
    stub = Stubber(made)
    stub.activate()
    return made, stub


def test_the_largest_document_stays_below_two_mebibytes() -> None:
    text = "ä" * MAX_TEXT
    one = replace(variant("a", text, 0.5, p99_ms=5), name=text)
    told = replace(
        release(),
        gates=[replace(gate, text=text) for gate in release().gates] * 2,
        looks=list(release().looks) * 5,
        transitions=[replace(release().transitions[0], reason=text)] * limits.MAX_TRANSITIONS,
    )
    drift = replace(window(), text=text, features=[feature(text[:100], 0.1)] * limits.MAX_FEATURES)
    state = replace(
        full_state(),
        endpoints=[endpoint(text, text, 1.0, *[one] * limits.MAX_VARIANTS)] * limits.MAX_ENDPOINTS,
        releases=[told] * limits.MAX_RELEASES,
        drift=[drift] * limits.MAX_DRIFT_WINDOWS,
        alarms=[alarm(text, "OK", minutes=1, reason=text)] * MAX_ALARMS,
    )
    assert len(state.encode()) < 2 * MIB


def test_an_empty_document_has_every_part_and_a_version() -> None:
    found = orjson.loads(empty_state().encode())
    assert found["version"] == 1
    assert found["at"] == "2026-12-03T10:00:00Z"
    assert {name for name in found if found[name] == []} >= {"endpoints", "releases", "drift", "alarms", "problems"}


@given(st.text(max_size=2000))
def test_a_text_from_outside_is_cut_and_never_lengthened(text: str) -> None:
    cut = short(text)
    assert len(cut) <= MAX_TEXT
    assert cut == text or (cut.endswith("…") and text.startswith(cut[:-1]))


@given(st.lists(st.integers(), max_size=300), st.integers(2, 50))
def test_thinning_keeps_order_and_both_ends(items: list[int], most: int) -> None:
    numbered = list(enumerate(items))
    kept = list(thinned(numbered, most))
    assert len(kept) == min(most, len(items))
    assert kept == sorted(set(kept))
    if items:
        assert (kept[0], kept[-1]) == (numbered[0], numbered[-1])


def test_a_part_is_read_at_its_pace_and_anew_when_something_changed() -> None:
    reads: list[int] = []
    part = Part("x", lambda: reads.append(1) or len(reads), first=0)
    assert [part.get(at) for at in (10.0, 10.0 + OFTEN_S / 2, 10.0 + OFTEN_S)] == [1, 1, 2]
    part.forget()
    assert part.get(10.0 + OFTEN_S) == 3


@pytest.mark.parametrize(
    "error",
    [
        TelemetryError("bucket gone"),
        ClientError({"Error": {"Code": "X", "Message": "bucket gone"}}, "Get"),
        KeyError("k"),
    ],
    ids=["ours", "AWS", "bug"],
)
def test_a_part_that_fails_keeps_what_it_had_and_says_why_until_it_works_again(error: Exception) -> None:
    found: list[int | Exception] = [7, error, 8]

    def failing_in_turn() -> int:
        one = found.pop(0)
        if isinstance(one, Exception):
            raise one
        return one

    part = Part("drift", failing_in_turn, first=0, every_s=0.0)
    assert part.get(1.0) == 7
    assert part.problem is None
    assert part.get(2.0) == 7
    assert part.problem is not None
    assert part.problem.part == "drift"
    assert part.problem.text
    assert part.get(3.0) == 8
    assert part.problem is None


class Given:
    """A source of one part, whatever it is asked with, or one that fails."""

    def __init__(self, name: str, broken: str, *found: Any) -> None:
        self._name, self._fails, self._found = name, name == broken, found

    def read(self, *_asked: Any) -> Any:
        if self._fails:
            raise TelemetryError(f"{self._name} gone")
        return self._found


def sources(folder: Path, broken: str = "") -> Sources:
    state = full_state()
    return Sources(
        endpoints=Given("endpoints", broken, list(state.endpoints), 3),
        releases=Given("releases", broken, list(state.releases), ["m"], 2),
        drift=Given("drift", broken, list(state.drift), 0),
        alarms=Given("alarms", broken, list(state.alarms), 1),
        faults=Faults(folder),
        targets=lambda: [Target(id=f"t{number}", label="t", url="", body=bytes) for number in range(MAX_TARGETS + 4)],
    )


@pytest.mark.parametrize("broken", ["endpoints", "releases", "drift", "alarms"])
def test_one_broken_part_hides_no_other(broken: str, tmp_path: Path) -> None:
    reader = StateReader(sources(tmp_path, broken), stage="dev", now=lambda: NOW, monotonic_s=lambda: 5.0)
    found = reader.read()
    assert found.problems == [Problem(part=broken, text=f"{broken} gone")]
    whole = {name: list(getattr(full_state(), name)) for name in ("endpoints", "releases", "drift", "alarms")}
    assert {name: list(getattr(found, name)) for name in whole} == {**whole, broken: []}


def test_what_was_left_off_is_counted(tmp_path: Path) -> None:
    reader = StateReader(sources(tmp_path), stage="dev", now=lambda: NOW, monotonic_s=lambda: 5.0)
    assert reader.read().left_off == {"endpoints": 3, "releases": 2, "alarms": 1, "traffic": 4}


def test_a_fault_shows_at_once_when_the_page_itself_changed_it(tmp_path: Path) -> None:
    reader = StateReader(sources(tmp_path), stage="dev", now=lambda: NOW, monotonic_s=lambda: 5.0)
    assert reader.read().faults == []
    Faults(tmp_path).add(make("slow"))
    assert reader.read().faults == []
    reader.changed()
    assert [fault.name for fault in reader.read().faults] == ["slow:*"]


VARIANTS = [
    {
        "VariantName": "a",
        "CurrentWeight": 0.9,
        "DesiredWeight": 0.5,
        "CurrentInstanceCount": 2,
        "DesiredInstanceCount": 2,
    },
    {
        "VariantName": "b",
        "CurrentWeight": 0.3,
        "DesiredWeight": 0.5,
        "CurrentInstanceCount": 1,
        "DesiredInstanceCount": 2,
    },
]


def described(name: str, **more: Any) -> dict[str, Any]:
    times = {"CreationTime": NOW, "LastModifiedTime": NOW}
    arn = f"arn:aws:sagemaker:us-east-1:123456789012:endpoint/{name}"
    return {"EndpointName": name, "EndpointArn": arn, "EndpointStatus": "InService", **times, **more}


def read_endpoints(
    found: dict[str, dict[str, Any]], *, published: dict[tuple[str, str, str], list[tuple[datetime, float]]]
) -> Any:
    sagemaker, control = client("sagemaker")
    cloudwatch, metrics = client("cloudwatch")
    control.add_response("list_endpoints", {"Endpoints": [described(name) for name in found]})
    for name in sorted(found):
        control.add_response("describe_endpoint", found[name], {"EndpointName": name})
    real = cloudwatch.get_metric_data

    def get_metric_data(**asked: Any) -> Any:
        results = []
        for query in asked["MetricDataQueries"]:
            metric = query["MetricStat"]["Metric"]
            assert [entry["Name"] for entry in metric["Dimensions"]] == ["EndpointName", "VariantName"]
            key = (metric["Dimensions"][1]["Value"], metric["MetricName"], query["MetricStat"]["Stat"])
            rows = [row for row in published.get(key, []) if asked["StartTime"] <= row[0] < asked["EndTime"]]
            times, values = [row[0] for row in rows], [row[1] for row in rows]
            results.append({"Id": query["Id"], "Timestamps": times, "Values": values, "StatusCode": "Complete"})
        metrics.add_response("get_metric_data", {"MetricDataResults": results})
        return real(**asked)

    cloudwatch.get_metric_data = get_metric_data
    known = known_endpoints(stage_of("dev"), {name: spec_of(name) for name in stage_of("dev").models})
    return EndpointReader(sagemaker=sagemaker, cloudwatch=cloudwatch, known=known).read(NOW)


def test_weights_are_shown_as_shares_and_microseconds_as_milliseconds() -> None:
    earlier, lately = NOW - timedelta(minutes=5), NOW - timedelta(seconds=30)
    published = {
        ("a", "Invocations", "Sum"): [(lately, 40.0), (earlier, 7.0)],
        ("a", "Invocation5XXErrors", "Sum"): [(lately, 2.0), (earlier, 0.0)],
        ("a", "ModelLatency", "p50"): [(lately, 4_000.0), (earlier, 3_000.0)],
        ("a", "ModelLatency", "p99"): [(lately, 12_500.0)],
    }
    [found], left = read_endpoints({RANKER: described(RANKER, ProductionVariants=VARIANTS)}, published=published)
    a, b = found.variants
    assert (left, found.model, found.budget_p99_ms) == (0, "recommendation_ranker", 12.0)
    assert (a.share, a.desired_share, a.version, a.instances, b.desired_instances) == (0.75, 0.5, "2.0.0", 2, 2)
    assert [(point.at, point.requests, point.errors, point.p50_ms, point.p99_ms) for point in a.points] == [
        (earlier, 7, 0, 3.0, None),
        (lately, 40, 2, 4.0, 12.5),
    ]
    assert (a.recent.at, a.recent.requests, a.recent.p99_ms) == (NOW, 40, 12.5)
    assert (b.recent.requests, b.recent.p99_ms, b.points) == (0, None, [])


def test_an_endpoint_without_variants_or_model_is_shown_as_it_is() -> None:
    strange = {
        "new": described("new", EndpointStatus="Creating"),
        "bad": described("bad", EndpointStatus="Failed", FailureReason="f" * 900),
    }
    [bad, new], _ = read_endpoints(strange, published={})
    assert (new.status, new.variants, new.model, new.budget_p99_ms) == ("Creating", [], "", None)
    assert len(bad.failure) == MAX_TEXT


def test_variants_beyond_the_most_are_counted_and_keep_their_weight() -> None:
    many = [{**VARIANTS[0], "VariantName": f"v{number}", "CurrentWeight": 1.0} for number in range(MAX_VARIANTS + 1)]
    [found], left = read_endpoints({RANKER: described(RANKER, ProductionVariants=many)}, published={})
    assert left == 1
    assert [one.share for one in found.variants] == [1 / (MAX_VARIANTS + 1)] * MAX_VARIANTS


def test_weights_of_zero_share_nothing() -> None:
    dark = [{**one, "CurrentWeight": 0.0, "DesiredWeight": 0.0} for one in VARIANTS]
    [found], _ = read_endpoints({RANKER: described(RANKER, ProductionVariants=dark)}, published={})
    assert [one.share for one in found.variants] == [0.0, 0.0]


def metric_alarm(name: str, state: str, **more: Any) -> dict[str, Any]:
    return {
        "AlarmName": name,
        "StateValue": state,
        "StateReason": "said",
        "StateUpdatedTimestamp": NOW,
        "MetricName": "ModelLatency",
        "ExtendedStatistic": "p99",
        "ComparisonOperator": "GreaterThanThreshold",
        "Threshold": 12000.0,
        "Period": 60,
        "EvaluationPeriods": 5,
        "DatapointsToAlarm": 3,
        **more,
    }


def test_loud_alarms_come_first_with_what_they_watch_and_since_when() -> None:
    cloudwatch, stub = client("cloudwatch")
    since = datetime(2026, 12, 1, tzinfo=UTC)
    rule = {"AlarmName": "z", "StateValue": "ALARM", "StateUpdatedTimestamp": NOW, "AlarmRule": "ALARM(a)"}
    tracking = metric_alarm("TargetTracking-x-AlarmLow-1", "OK")
    metric = [metric_alarm("a", "OK"), metric_alarm("b", "ALARM", StateTransitionedTimestamp=since), tracking]
    stub.add_response("describe_alarms", {"MetricAlarms": metric, "CompositeAlarms": [rule]})
    found, left = AlarmReader(cloudwatch).read()
    assert [one.name for one in found] == ["b", "z", "TargetTracking-x-AlarmLow-1", "a"]
    assert (found[0].since, found[1].since, left) == (since, NOW, 0)
    assert found[0].watches == "ModelLatency p99 above 12000, 3 of 5 periods of 60 s"
    assert found[1].watches == "ALARM(a)"
    assert [one.scales for one in found] == [False, False, True, False]


def test_alarms_beyond_the_bound_are_counted_and_the_loud_ones_kept() -> None:
    cloudwatch, stub = client("cloudwatch")
    many = [metric_alarm(f"q{number:04d}", "OK") for number in range(MAX_ALARMS + 5)] + [metric_alarm("zz", "ALARM")]
    stub.add_response("describe_alarms", {"MetricAlarms": many})
    found, left = AlarmReader(cloudwatch).read()
    assert (len(found), left, found[0].name) == (MAX_ALARMS, 6, "zz")


def report(model: str, slot: Slot, *sizes: float) -> DriftReport:
    features = tuple(
        FeatureDrift(
            name=f"f{number}",
            level=Level.WARN,
            drifted=False,
            size=size,
            p_value=0.001,
            significant=True,
            effective_rows=100.0,
            missing_share=0.0,
            unseen_share=0.0,
            baseline_missing_share=0.0,
        )
        for number, size in enumerate(sizes)
    )
    at = Window(model=model, version="2.0.0", slot=slot, start=NOW - timedelta(hours=1), end=NOW)
    return DriftReport(window=at, verdict=Verdict.WARN, text="t", rows=9, requests=3, unreadable=0, features=features)


def test_drift_has_a_window_a_slot_and_the_thresholds_of_the_models_own_rules() -> None:
    class Newest:
        def newest(self, model: str, slot: Slot) -> DriftReport | None:
            return report(model, slot, 0.1, 0.3, 0.2) if slot == "b" else None

    spec = spec_of("recommendation_ranker")
    [found], left = DriftReader(Newest(), {spec.name: spec}).read()
    assert (found.slot, found.warn_size, found.alarm_size) == ("b", spec.drift.warn_size, spec.drift.alarm_size)
    assert [one.name for one in found.features] == ["f1", "f2", "f0"]
    assert left == 0
