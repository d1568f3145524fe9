"""Reusable constructs: they take specs and other constructs, never names or ARNs, and hand out grants and metrics."""
