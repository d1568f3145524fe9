"""A window in the words of SageMaker Model Monitor, so that its readers and dashboards read ours.

Formats: SageMaker guide, *model-monitor-interpreting-statistics* and *model-monitor-interpreting-violations*.
"""

from __future__ import annotations

import math

from serving.telemetry.baseline import Baseline, FeatureBaseline
from serving.telemetry.counts import FeatureCounts, WindowCounts
from serving.telemetry.drift import DriftReport, FeatureDrift, Level

STATISTICS = "statistics.json"
VIOLATIONS = "constraint_violations.json"


def statistics(baseline: Baseline, counts: WindowCounts) -> dict[str, object]:
    """Give `statistics.json`; buckets are the baseline's bins, of which the outer ones end at what was seen."""
    return {
        "version": 0.0,
        "dataset": {"item_count": counts.rows},
        "features": [
            _feature(feature, found, counts.rows)
            for feature, found in zip(baseline.features, counts.features, strict=True)
        ],
    }


def violations(report: DriftReport) -> dict[str, object]:
    """Give `constraint_violations.json`: every feature at least at the level of a warning."""
    return {
        "violations": [
            {
                "feature_name": feature.name,
                "constraint_check_type": "baseline_drift_check",
                "description": describe(feature),
            }
            for feature in report.features
            if feature.level is not Level.OK
        ]
    }


def describe(feature: FeatureDrift) -> str:
    """Say in one line how far a feature is from its baseline."""
    persistent = ", persistent" if feature.drifted else ""
    return (
        f"{feature.name}: {feature.level.value}{persistent}; stability index {feature.size:.3f} above chance, "
        f"p {feature.p_value:.2g} over {feature.effective_rows:.0f} independent rows; "
        f"missing {feature.missing_share:.1%} (baseline {feature.baseline_missing_share:.1%}), unseen "
        f"{feature.unseen_share:.1%}"
    )


def _feature(feature: FeatureBaseline, found: FeatureCounts, rows: int) -> dict[str, object]:
    missing = int(found.counts[-1])
    mean = found.total / found.finite if found.finite else 0.0
    variance = max(0.0, found.total_squares / found.finite - mean * mean) if found.finite else 0.0
    return {
        "name": feature.name,
        "inferred_type": "Fractional",
        "numerical_statistics": {
            "common": {"num_present": rows - missing, "num_missing": missing},
            "mean": mean,
            "sum": found.total,
            "std_dev": math.sqrt(variance),
            "min": found.lowest if found.finite else None,
            "max": found.highest if found.finite else None,
            "distribution": {"kll": {"buckets": _buckets(feature, found)}},
        },
    }


def _buckets(feature: FeatureBaseline, found: FeatureCounts) -> list[dict[str, float]]:
    if not found.finite:
        return []
    ends = [
        min(found.lowest, feature.edges[0]),
        *feature.edges,
        max(found.highest, feature.edges[-1]),
    ]
    return [
        {"lower_bound": low, "upper_bound": high, "count": int(count)}
        for low, high, count in zip(ends, ends[1:], found.counts[:-1], strict=False)
    ]
