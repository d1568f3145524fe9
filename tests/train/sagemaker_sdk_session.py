"""What a user of the SageMaker Python SDK does, run by a Python that has it: BUCKET ARCHIVE_KEY BODY_FILE.

Prints one JSON document. Nothing here knows of the local stack: its address is in AWS_ENDPOINT_URL.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import boto3
import numpy as np
from sagemaker import Session  # type: ignore[import-not-found]  # in an environment of its own
from sagemaker.async_inference import AsyncInferenceConfig, WaiterConfig  # type: ignore[import-not-found]
from sagemaker.deserializers import (  # type: ignore[import-not-found]
    CSVDeserializer,
    JSONDeserializer,
    NumpyDeserializer,
)
from sagemaker.model import Model  # type: ignore[import-not-found]
from sagemaker.model_monitor import DataCaptureConfig  # type: ignore[import-not-found]
from sagemaker.predictor import Predictor  # type: ignore[import-not-found]
from sagemaker.serializers import CSVSerializer, JSONSerializer, NumpySerializer  # type: ignore[import-not-found]
from sagemaker_core.resources import Endpoint  # type: ignore[import-not-found]

_POLL_S = 0.1
_JSON = {"serializer": JSONSerializer(), "deserializer": JSONDeserializer()}


def main(bucket: str, key: str, body_file: str) -> None:
    """Deploy, predict in every form, update, predict asynchronously, delete."""
    # a named bucket: the SDK asks STS for the account of a default one, at an address of AWS that it writes itself
    session = Session(boto3.Session(), default_bucket=bucket)
    control = boto3.client("sagemaker")

    def settled(name: str) -> None:
        # the SDK's own wait looks every 30 seconds
        while control.describe_endpoint(EndpointName=name)["EndpointStatus"] in {"Creating", "Updating"}:
            time.sleep(_POLL_S)

    def model(name: str) -> Model:
        return Model(
            image_uri="triton:none",
            model_data=f"s3://{bucket}/{key}",
            role="arn:aws:iam::123456789012:role/sdk",
            predictor_cls=Predictor,
            sagemaker_session=session,
            name=name,
        )

    body = json.loads(Path(body_file).read_text())
    row = np.array(body["inputs"][0]["data"], dtype=np.float32)[None]
    capture = DataCaptureConfig(
        enable_capture=True, sampling_percentage=100, destination_s3_uri=f"s3://{bucket}/captured"
    )
    predictor = model("sdk").deploy(
        1, "ml.m5.large", endpoint_name="sdk", wait=False, data_capture_config=capture, **_JSON
    )
    settled("sdk")
    npy = Predictor("sdk", session, NumpySerializer(dtype=np.float32), NumpyDeserializer())
    csv = Predictor("sdk", session, CSVSerializer(), CSVDeserializer())
    found = {
        "json": predictor.predict(body)["outputs"][0]["data"],
        "named": predictor.predict(body, target_variant="AllTraffic", inference_id="mine")["outputs"][0]["data"],
        "npy": npy.predict(row).ravel().tolist(),
        "csv": [float(value) for value in csv.predict(row)[0]],
        "stream": json.loads(b"".join(predictor.predict_stream(body)))["outputs"][0]["data"],
        "core": json.loads(
            Endpoint.get("sdk", region="us-east-1").invoke(json.dumps(body), "application/json").body.read()
        )["outputs"][0]["data"],
    }
    predictor.update_endpoint(initial_instance_count=2, instance_type="ml.m5.large", wait=False)
    settled("sdk")
    variants = control.describe_endpoint(EndpointName="sdk")["ProductionVariants"]
    queue = model("sdk-async").deploy(
        1,
        "ml.m5.large",
        endpoint_name="sdk-async",
        wait=False,
        async_inference_config=AsyncInferenceConfig(output_path=f"s3://{bucket}/answers"),
        **_JSON,
    )
    settled("sdk-async")
    found["async"] = queue.predict(body, waiter_config=WaiterConfig(max_attempts=60, delay=1))["outputs"][0]["data"]
    predictor.delete_model()
    for each in (predictor, queue):
        each.delete_endpoint()
    sys.stdout.write(json.dumps({"scores": found, "count": variants[0]["CurrentInstanceCount"]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
