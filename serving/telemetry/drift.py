"""Drift: counts of a window against a version's baseline; significance and size and persistence together."""

from __future__ import annotations

from serving.telemetry.baseline import Baseline, FeatureBaseline, baseline_from_dict, make_baseline

__all__ = ["Baseline", "FeatureBaseline", "baseline_from_dict", "make_baseline"]
