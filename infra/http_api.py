"""The public HTTP API: every route to the predict function, signed requests only, logged and throttled."""

from __future__ import annotations

import json
from collections.abc import Sequence

from aws_cdk import Duration
from aws_cdk import aws_apigatewayv2 as apigateway
from aws_cdk import aws_apigatewayv2_authorizers as authorizers
from aws_cdk import aws_apigatewayv2_integrations as integrations
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.acknowledge import acknowledge
from infra.function import ServiceFunction
from infra.lifecycle import log_retention, removal_policy
from serving.spec import StageSpec

# Routes that are no model's: outcomes of predictions, and the batch form, whose answer says what it needs.
_SHARED_ROUTES = ("/v1/outcomes", "/v1/thumbnail-score/batch")
_OPEN_ROUTES = {
    "/healthz": "a load balancer's question carries no signature",
    "/openapi.json": "the contract is public",
}
# Below the account's 10,000 a second, so that one API cannot starve the others (API Gateway guide, *http-api-quotas*).
_RATE_PER_SECOND = 2_000
_BURST = 1_000
_LOG_FIELDS = {
    "requestId": "$context.requestId",
    "time": "$context.requestTime",
    "route": "$context.routeKey",
    "status": "$context.status",
    "latencyMs": "$context.responseLatency",
    "integrationMs": "$context.integrationLatency",
    "bytes": "$context.responseLength",
    "caller": "$context.identity.caller",
    "error": "$context.error.message",
}


class PredictionApi(Construct):
    """`POST` routes of the models and the shared ones behind IAM; health and contract are open."""

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        stage: StageSpec,
        function: ServiceFunction,
        routes: Sequence[str],
        key: kms.IKey | None,
    ) -> None:
        super().__init__(scope, id_)
        self._integration = integrations.HttpLambdaIntegration(
            "Predict", function.function, timeout=Duration.seconds(10)
        )
        self.api = apigateway.HttpApi(
            self, "Api", api_name=f"streamhub-{stage.name}", create_default_stage=False, description="predictions"
        )
        self.stage = apigateway.HttpStage(
            self,
            "Stage",
            http_api=self.api,
            stage_name="$default",
            auto_deploy=True,
            detailed_metrics_enabled=True,
            throttle=apigateway.ThrottleSettings(rate_limit=_RATE_PER_SECOND, burst_limit=_BURST),
        )
        self.url = self.api.api_endpoint
        self._log_accesses(stage, key)
        signed = authorizers.HttpIamAuthorizer()
        self._signed = [
            self._route(path, method=apigateway.HttpMethod.POST, authorizer=signed)
            for path in (*routes, *_SHARED_ROUTES)
        ]
        for path, reason in _OPEN_ROUTES.items():
            route = self._route(path, method=apigateway.HttpMethod.GET, authorizer=apigateway.HttpNoneAuthorizer())
            acknowledge(route, "AwsSolutions-APIG4", reason=reason)

    def grant_call(self, grantee: iam.IGrantable) -> None:
        """Let it call the signed routes."""
        for route in self._signed:
            route.grant_invoke(grantee)

    def metric_server_errors(self, *, period: Duration) -> cloudwatch.Metric:
        """Answers of 5xx, a sum."""
        return self.api.metric_server_error(period=period, statistic="Sum", label="5xx")

    def metric_requests(self, *, period: Duration) -> cloudwatch.Metric:
        """Requests, a sum."""
        return self.api.metric_count(period=period, statistic="Sum", label="requests")

    def metric_latency(self, *, period: Duration) -> cloudwatch.Metric:
        """From the request's arrival to its answer, milliseconds, p99."""
        return self.api.metric_latency(period=period, statistic="p99")

    def _route(
        self, path: str, *, method: apigateway.HttpMethod, authorizer: apigateway.IHttpRouteAuthorizer
    ) -> apigateway.HttpRoute:
        return self.api.add_routes(path=path, methods=[method], integration=self._integration, authorizer=authorizer)[0]

    def _log_accesses(self, stage: StageSpec, key: kms.IKey | None) -> None:
        group = logs.LogGroup(
            self,
            "AccessLogs",
            log_group_name=f"/aws/vendedlogs/streamhub/{stage.name}/api",
            encryption_key=key,
            retention=log_retention(stage),
            removal_policy=removal_policy(stage),
        )
        cfn = self.stage.node.default_child
        if not isinstance(cfn, apigateway.CfnStage):
            raise TypeError(f"got {type(cfn).__name__}; allowed: a stage of this app")
        cfn.access_log_settings = apigateway.CfnStage.AccessLogSettingsProperty(
            destination_arn=group.log_group_arn, format=json.dumps(_LOG_FIELDS)
        )
