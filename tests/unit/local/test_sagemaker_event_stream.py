"""Our frames, read by botocore's decoder: whatever the bytes, and however the network cuts them."""

from __future__ import annotations

import json

from botocore.eventstream import EventStreamBuffer
from hypothesis import given
from hypothesis import strategies as st

from local.sagemaker.event_stream import payload_part, stream_error


@given(parts=st.lists(st.binary(max_size=2000), max_size=8), cut=st.integers(1, 500))
def test_parts_arrive_byte_for_byte_and_in_order(parts: list[bytes], cut: int) -> None:
    wire = b"".join(map(payload_part, parts))
    decoder, found = EventStreamBuffer(), []
    for start in range(0, len(wire), cut):
        decoder.add_data(wire[start : start + cut])
        found += list(decoder)
    assert [event.payload for event in found] == parts
    assert {(event.headers[":message-type"], event.headers[":event-type"]) for event in found} <= {
        ("event", "PayloadPart")
    }


@given(message=st.text(max_size=300))
def test_an_error_is_an_exception_event_with_its_document(message: str) -> None:
    decoder = EventStreamBuffer()
    decoder.add_data(stream_error("ModelStreamError", {"Message": message, "ErrorCode": "StreamBroken"}))
    (event,) = decoder
    assert (event.headers[":message-type"], event.headers[":exception-type"]) == ("exception", "ModelStreamError")
    assert json.loads(event.payload) == {"Message": message, "ErrorCode": "StreamBroken"}
    assert event.to_response_dict()["status_code"] == 400
