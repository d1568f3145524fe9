"""What CloudWatch computes: statistics of samples, metric math, GetMetricData. Pure: nothing here knows ministack."""
