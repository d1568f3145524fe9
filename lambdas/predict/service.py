"""The service of the routes: check → assign → features → encode → invoke → decode → answer, and one exposure each."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from lambdas.predict.recorder import Recorder
from serving.errors import (
    EndpointError,
    FeatureStoreError,
    InferenceError,
    InvalidRequestError,
    ModelFailedError,
    NotAvailableError,
    ReleaseError,
)
from serving.features.assembly import Assembled, Layout
from serving.features.context import context_row
from serving.ports import Clock, FeatureReader, Invocation, Invoker, TrafficSource
from serving.prediction import answers, ids, images, requests
from serving.prediction.answers import Answered, Scores
from serving.prediction.assignment import assign, weight_of
from serving.prediction.budget import Budget
from serving.prediction.ids import PredictionRef
from serving.prediction.types import Action, Exposure, Traffic
from serving.protocol.codec import decode_response, encode_request
from serving.protocol.tensors import InferRequest, Tensor
from serving.spec import Fallback, ModelSpec, Slot

Document = dict[str, object]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One model of the stage as the API calls it."""

    spec: ModelSpec
    endpoint: str
    versions: Mapping[Slot, str]
    budget: Budget
    layout: Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """One request on its way: where it goes, when it came (monotonic s), and what was degraded before the call."""

    target: Target
    ref: PredictionRef
    arrived_s: float
    degraded: tuple[str, ...]

    def answered(self) -> Answered:
        """Give what the answer says of where it comes from."""
        return Answered(
            prediction_id=ids.make(self.ref),
            model_version=self.ref.version,
            variant=self.ref.assignment.slot,
            degraded=self.degraded,
        )


class Predictions:
    """Answers the model routes; holds ports only."""

    def __init__(
        self,
        *,
        targets: Mapping[str, Target],
        invoker: Invoker,
        features: FeatureReader,
        traffic: TrafficSource,
        recorder: Recorder,
        clock: Clock,
        monotonic: Callable[[], float],
        random: Callable[[int], bytes],
    ) -> None:
        self.targets = targets
        self.recorder = recorder
        self.monotonic = monotonic
        self._invoker = invoker
        self._features = features
        self._traffic = traffic
        self._clock = clock
        self._random = random

    def rank(self, body: bytes, *, arrived_s: float) -> Document:
        """Answer `/v1/rank`."""
        target = self.target("/v1/rank")
        request = requests.rank_request(body, max_candidates=target.spec.api.max_candidates)
        opened = self.open(target, request.user_id, arrived_s=arrived_s)
        assembled = self._assembled(opened, request)
        opened = _with_degraded(opened, _feature_faults(request, assembled))
        tensor = Tensor(target.spec.inputs[0].name, assembled.values)
        opened, scores = self._invoke(opened, (tensor,), width=1)
        if scores is None:
            items = answers.by_popularity(request.candidates, assembled.popularity())
        else:
            items = answers.ranked(request.candidates, scores[:, 0])
        return {**opened.answered().document(), "items": items}

    def moderate(self, body: bytes, *, arrived_s: float) -> Document:
        """Answer `/v1/moderate`."""
        target = self.target("/v1/moderate")
        request = requests.moderate_request(body)
        labels = target.spec.api.labels
        tensors = (_image(target, request), _title(target, request))
        opened = self.open(target, request.content_id, arrived_s=arrived_s)
        opened, rows = self._invoke(opened, tensors, width=len(labels))
        if rows is None:
            return {**opened.answered().document(), "scores": None, "action": Action.REVIEW.value}
        scores = dict(zip(labels, rows[0].tolist(), strict=True))
        action = answers.action_of(scores, target.spec.api)
        return {**opened.answered().document(), "scores": scores, "action": action.value}

    def thumbnail_score(self, body: bytes, *, arrived_s: float) -> Document:
        """Answer `/v1/thumbnail-score`."""
        target = self.target("/v1/thumbnail-score")
        request = requests.thumbnail_request(body)
        tensors = (_image(target, request),)
        opened = self.open(target, request.content_id, arrived_s=arrived_s)
        opened, rows = self._invoke(opened, tensors, width=1)
        return {**opened.answered().document(), "score": None if rows is None else rows[0].tolist()[0]}

    def outcome(self, body: bytes) -> Document:
        """Answer `/v1/outcomes`: `counted` is False when the same event was there already."""
        outcome, ref = requests.outcome_request(body)
        models = sorted(target.spec.name for target in self.targets.values())
        if ref.model not in models:
            raise InvalidRequestError(
                f"prediction_id: got an id of model {ref.model}; allowed those of {', '.join(models)}; "
                f"send it to the stage that gave it"
            )
        counted = self.recorder.outcome(outcome)
        return {"prediction_id": outcome.prediction_id, "event": outcome.event, "counted": counted}

    def target(self, route: str) -> Target:
        """Give the model of a route, or raise NotAvailableError."""
        if route not in self.targets:
            raise NotAvailableError(
                f"{route}: got no model in this stage; allowed {', '.join(sorted(self.targets))}; "
                f"add the model to stages/<stage>.toml and deploy"
            )
        return self.targets[route]

    def open(self, target: Target, unit: str | None, *, arrived_s: float) -> Opened:
        """Assign a request; while the release record cannot be read it goes where the endpoint's weights send it."""
        degraded: tuple[str, ...] = ()
        try:
            traffic = self._traffic.traffic(target.spec.name)
        except ReleaseError as error:
            _log.warning("%s", error)
            traffic = Traffic.without_release(target.spec.name)
            unit, degraded = None, (answers.TRAFFIC_UNKNOWN,)
        assignment = assign(traffic, unit)
        ref = PredictionRef(
            unique=ids.unique_part(self._clock(), self._random(ids.RANDOM_BYTES)),
            model=target.spec.name,
            version=target.versions[assignment.slot],
            assignment=assignment,
            weight=weight_of(traffic, assignment),
        )
        return Opened(target=target, ref=ref, arrived_s=arrived_s, degraded=degraded)

    def record(self, opened: Opened, *, latency_ms: float, failed: bool) -> None:
        """Hand one exposure to the recorder."""
        self.recorder.add(
            Exposure(
                prediction_id=ids.make(opened.ref),
                model=opened.ref.model,
                version=opened.ref.version,
                assignment=opened.ref.assignment,
                weight=opened.ref.weight,
                latency_ms=latency_ms,
                failed=failed,
                degraded=opened.degraded,
                at=self._clock(),
            )
        )

    def _spent_ms(self, since_s: float) -> float:
        return (self.monotonic() - since_s) * 1000

    def _assembled(self, opened: Opened, request: requests.RankRequest) -> Assembled:
        layout, now = opened.target.layout, self._clock()
        keys = layout.keys(request.user_id, request.candidates)
        timeout_ms = opened.target.budget.feature_timeout_ms(self._spent_ms(opened.arrived_s))
        try:
            found = self._features.read(keys, timeout_ms=timeout_ms)
        except FeatureStoreError as error:
            _log.warning("%s", error)
            found = ()
        context = context_row(
            hour=request.context.hour, device=request.context.device, weekend=request.context.weekend, now=now
        )
        return layout.assemble(found, unit=request.user_id, candidates=request.candidates, context=context, now=now)

    def _invoke(self, opened: Opened, tensors: tuple[Tensor, ...], *, width: int) -> tuple[Opened, Scores | None]:
        """Call the endpoint for the first output, (rows, width); None when it failed and the spec has a fallback."""
        started_s = self.monotonic()
        try:
            slot, scores = self._call(opened, tensors, width=width)
        except (InferenceError, EndpointError) as error:
            self.record(opened, latency_ms=self._spent_ms(started_s), failed=True)
            if opened.target.spec.api.fallback is Fallback.NONE:
                raise
            _log.warning("fallback of %s: %s", opened.ref.model, error)
            return _with_degraded(opened, (answers.FALLBACK_MODEL,)), None
        if slot != opened.ref.assignment.slot:
            opened = replace(opened, ref=ids.with_slot(opened.ref, slot=slot, version=opened.target.versions[slot]))
        self.record(opened, latency_ms=self._spent_ms(started_s), failed=False)
        return opened, scores

    def _call(self, opened: Opened, tensors: tuple[Tensor, ...], *, width: int) -> tuple[Slot, Scores]:
        assignment = opened.ref.assignment
        body, content_type = encode_request(
            InferRequest(id=opened.ref.unique, inputs=tensors, binary_output=True), binary=True
        )
        call = Invocation(
            endpoint=opened.target.endpoint,
            body=body,
            content_type=content_type,
            accept="*/*",
            target_slot=assignment.slot if assignment.keyed else None,
            inference_id=opened.ref.unique,
            timeout_ms=opened.target.budget.invoke_timeout_ms(self._spent_ms(opened.arrived_s)),
        )
        try:
            result = self._invoker.invoke(call)
            response = decode_response(result.body, content_type=result.content_type)
        except InvalidRequestError as error:
            # the client's body was checked before: what the model refuses is our tensor, not the client's fault
            raise ModelFailedError(f"{call.endpoint}: {error}") from error
        name = opened.target.spec.outputs[0].name
        return result.slot, answers.output(response, name=name, rows=len(tensors[0].array), width=width)


def _with_degraded(opened: Opened, more: tuple[str, ...]) -> Opened:
    return replace(opened, degraded=(*opened.degraded, *more))


def _feature_faults(request: requests.RankRequest, assembled: Assembled) -> tuple[str, ...]:
    context = request.context
    whole = context.hour is not None and context.device is not None and context.weekend is not None
    faults = ((assembled.degraded, answers.FEATURES_DEFAULT), (not whole, answers.CONTEXT_DEFAULT))
    return tuple(name for happened, name in faults if happened)


def _image(target: Target, request: requests.ImageRequest) -> Tensor:
    spec = next(tensor for tensor in target.spec.inputs if tensor.name == target.spec.api.image_input)
    if request.image_base64 is None:
        raise NotAvailableError(
            "thumbnail_url: got a URL; allowed image_base64, as no bucket of thumbnails is wired here; send the bytes"
        )
    height, width, _ = spec.shape
    data = images.from_base64(request.image_base64)
    return Tensor(spec.name, images.to_tensor(data, height=height, width=width))


def _title(target: Target, request: requests.ImageRequest) -> Tensor:
    spec = next(tensor for tensor in target.spec.inputs if tensor.name != target.spec.api.image_input)
    array = np.empty((1, 1), dtype=np.object_)
    array[0, 0] = request.title.encode()
    return Tensor(spec.name, array)
