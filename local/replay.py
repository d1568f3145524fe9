"""A request's body, read before the application that it is for, and told to it again."""

from __future__ import annotations

from local.routing import Message, Receive


def again(body: bytes, receive: Receive) -> Receive:
    """Give a `receive` that tells a body that was read already, and then what comes behind it."""
    told = False

    async def receives() -> Message:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receives
