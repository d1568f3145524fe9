from __future__ import annotations

from typing import Any


def test_a_model_becomes_an_endpoint_that_answers_plain_boto3(aws: Any) -> None:
    config = aws.config({"a": aws.model(aws.archive("v2"), MARK="7")}, {"a": 1})
    endpoint = aws.endpoint(config)
    described = aws.sm.describe_endpoint(EndpointName=endpoint)
    variant, answer = aws.invoke(endpoint, {"x": 1})
    assert described["EndpointStatus"] == "InService"
    assert described["EndpointArn"] == f"arn:aws:sagemaker:us-east-1:123456789012:endpoint/{endpoint}"
    assert (variant, answer["answer"], answer["mark"]) == ("a", "v2", "7")
