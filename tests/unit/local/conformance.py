"""What the local SageMaker does beside what AWS documents, row by row, each held by tests that are named here.

`python -m tests.unit.local.conformance` writes the table into docs/local.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "local.md"
BEGIN, END = "<!-- conformance: begin -->", "<!-- conformance: end -->"
_ENDPOINTS = "tests/integration/local_sagemaker/test_sagemaker_endpoints.py"
_ROLLOUTS = "tests/integration/local_sagemaker/test_sagemaker_rollouts.py"
_HOSTING = "tests/integration/local_sagemaker/test_sagemaker_hosting.py"
_CALLS = "tests/integration/local_sagemaker/test_sagemaker_invocations.py"
_WIRE = "tests/integration/local_sagemaker/test_sagemaker_wire.py"
_WORKERS = "tests/integration/local_sagemaker/test_sagemaker_workers.py"
_COMPONENTS = "tests/integration/local_sagemaker/test_sagemaker_component_updates.py"
_BOTO3 = "tests/integration/local_sagemaker/test_sagemaker_boto3.py"
_CLIENTS = "tests/train/test_real_clients.py"
_FAULTS = "tests/integration/local_sagemaker/test_sagemaker_faults.py"
_STORY = "tests/integration/local_sagemaker/test_sagemaker_story.py"
_PLAN = "tests/unit/local/test_sagemaker_plan.py"
_WATCH = "tests/unit/local/test_scaling_watch.py"
_TYPES = "tests/unit/local/test_sagemaker_scaled_types.py"
_ALARMS = "tests/unit/local/test_alarms_missing_data.py"
_METRIC_MATH = "tests/unit/local/test_metric_math.py"
_ALARM_CALLS = "tests/integration/local_alarms/test_alarms_over_http.py"
_ALARM_REQUESTS = "tests/unit/local/test_alarm_requests.py"
_PACE = "tests/unit/local/test_pace.py"
_ROLES = "tests/integration/local_gateway/test_function_roles.py"
_TRIGGERS = "tests/integration/local_gateway/test_function_triggers.py"
_SERVICE_FAULTS = "tests/integration/local_gateway/test_service_faults.py"
_POLICY = "tests/unit/local/test_permissions_policy.py"
_TIME = "tests/unit/local/test_stack_time.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One behaviour."""

    what: str
    aws: str
    here: str
    client: str
    held_by: tuple[str, str]


ROWS = (
    Row(
        what="CreateEndpoint",
        aws="Creating, then InService, or Failed with FailureReason (API DescribeEndpoint)",
        here="same; the process of each variant must pass its health check",
        client="boto3, CDK",
        held_by=(_ENDPOINTS, "test_a_model_server_that_refuses_its_archive_fails_the_endpoint_with_its_words"),
    ),
    Row(
        what="UpdateEndpoint while Creating, Updating, Failed",
        aws="refused",
        here="same",
        client="boto3",
        held_by=(_ROLLOUTS, "test_an_endpoint_takes_no_call_while_it_is_deployed_but_deletion"),
    ),
    Row(
        what="RetainAllVariantProperties, ExcludeRetainedVariantProperties",
        aws="without them weights and counts fall back to the config's (API UpdateEndpoint)",
        here="same",
        client="boto3, CDK",
        held_by=(_ENDPOINTS, "test_an_update_keeps_weights_and_counts_only_when_told_to"),
    ),
    Row(
        what="blue/green: all at once, canary, linear; rolling",
        aws="traffic in steps, a wait after each; sizes within bounds; rolling for one variant; variants keep their "
        "names (guide, guardrails)",
        here="same shares; waits 60 times as short, or by `--pace`; a share is one of requests, not of whole instances",
        client="boto3",
        held_by=(_PLAN, "test_a_policy_is_its_steps_of_traffic"),
    ),
    Row(
        what="canary bakes, then the old fleet waits",
        aws="Updating until TerminationWaitInSeconds is over",
        here="same",
        client="boto3",
        held_by=(_ROLLOUTS, "test_a_canary_takes_its_part_bakes_then_takes_all_and_the_old_fleet_waits"),
    ),
    Row(
        what="rollback on alarm",
        aws="all traffic back to the old fleet; InService on the old config (guide, auto-rollback)",
        here="same, without FailureReason; looked at twice a second from the first traffic to the end of the wait",
        client="boto3",
        held_by=(_ROLLOUTS, "test_an_alarm_takes_a_deployment_back_without_a_word"),
    ),
    Row(
        what="update whose containers are not healthy",
        aws="documents FailureReason for Failed only",
        here="InService on the old config, with FailureReason",
        client="boto3",
        held_by=(_ENDPOINTS, "test_a_failed_update_leaves_the_endpoint_on_what_it_had"),
    ),
    Row(
        what="UpdateEndpointWeightsAndCapacities",
        aws="Updating; what is not named stays; weight 0 takes only named requests",
        here="same",
        client="boto3",
        held_by=(_ENDPOINTS, "test_new_weights_pass_through_updating_and_count_when_it_is_in_service_again"),
    ),
    Row(
        what="another instance type of a scaled variant",
        aws="refused until the target is deregistered (guide, endpoint-scaling-update)",
        here="same; the wording of AWS is not known",
        client="boto3, CDK",
        held_by=(_TYPES, "test_a_scaled_variant_keeps_its_instance_type"),
    ),
    Row(
        what="any order of create, update, weights, delete, unhealthy containers, alarms, no instances, restarts",
        aws="the rules above",
        here="same, against a second model of them",
        client="SageMaker's JSON protocol",
        held_by=(_STORY, "test_a_thousand_random_operations_do_so_too"),
    ),
    Row(
        what="DeleteEndpoint",
        aws="Deleting, then not found; not during maintenance",
        here="same; also taken while Creating or Updating; refused while it hosts components",
        client="boto3 and its waiter",
        held_by=(_ENDPOINTS, "test_a_deleted_endpoint_is_gone_and_its_process_ends"),
    ),
    Row(
        what="InvokeEndpoint, a container's error",
        aws="424 ModelError with OriginalStatusCode",
        here="same",
        client="boto3",
        held_by=(_CALLS, "test_a_containers_error_is_a_model_error_with_what_it_said"),
    ),
    Row(
        what="no capacity: deployment, more instances",
        aws="FailureReason InsufficientInstanceCapacity; RollingBack, then InService as before (API DescribeEndpoint)",
        here="same, when `local fault add capacity` asks for it",
        client="boto3",
        held_by=(_FAULTS, "test_more_instances_that_are_not_to_be_had_roll_back"),
    ),
    Row(
        what="InvokeEndpoint, throttled",
        aws="400 ThrottlingException without a text (seen by users; the API model has no such error)",
        here="same, when `local fault add throttle` asks for it",
        client="boto3",
        held_by=(_FAULTS, "test_calls_are_slow_fail_or_are_throttled_until_the_fault_is_removed"),
    ),
    Row(
        what="InvokeEndpoint, the service's own errors",
        aws="503 ServiceUnavailable, 500 InternalFailure, 530 InternalDependencyException, 429 ModelNotReadyException "
        "(API model)",
        here="same, when a fault of that kind is asked for",
        client="boto3",
        held_by=(_WIRE, "test_the_services_own_errors_have_the_models_codes_and_statuses"),
    ),
    Row(
        what="InvokeEndpoint, a container that is late, breaks off or speaks no HTTP",
        aws="60 seconds (API InvokeEndpoint); 424 ModelError",
        here="same, with OriginalStatusCode 0; what AWS says of a broken connection is not known",
        client="boto3",
        held_by=(_WIRE, "test_a_container_that_breaks_off_is_a_model_error_of_status_0"),
    ),
    Row(
        what="InvokeEndpoint, headers to the container and back",
        aws="Content-Type, Accept, CustomAttributes, InferenceId, SessionId; CustomAttributes, NewSessionId, "
        "ClosedSessionId (API model)",
        here="same; no other header passes",
        client="boto3",
        held_by=(_WIRE, "test_the_container_sees_what_is_documented_and_no_other_header"),
    ),
    Row(
        what="InvokeEndpoint, size of a body",
        aws="6 MiB (API model), 25 MB (newer pages)",
        here="413 above 6 MiB; 25 MB as an option of the service",
        client="boto3",
        held_by=(_CALLS, "test_a_body_above_the_limit_is_refused_and_one_at_it_passes"),
    ),
    Row(
        what="InvokeEndpointWithResponseStream",
        aws="PayloadPart events as the container sends them; within 8 minutes",
        here="same; not captured",
        client="boto3",
        held_by=(_WIRE, "test_a_part_arrives_before_the_container_makes_the_next"),
    ),
    Row(
        what="what goes wrong in a stream",
        aws="ModelStreamError with StreamBroken or ModelInvocationTimeExceeded, InternalStreamFailure (API "
        "ResponseStream)",
        here="same; the last one when `local fault add stream` asks for it",
        client="boto3 and its decoder of frames",
        held_by=(_WIRE, "test_what_goes_wrong_in_a_stream_is_its_last_event"),
    ),
    Row(
        what="RoutingConfig: RANDOM, LEAST_OUTSTANDING_REQUESTS",
        aws="any instance, or the one with the fewest requests (API ProductionVariantRoutingConfig)",
        here="same among as many processes as `local up --processes` allows; one serves all instances by default",
        client="boto3",
        held_by=(_WORKERS, "test_a_busy_instance_gets_requests_unless_the_least_outstanding_are_asked_for"),
    ),
    Row(
        what="stateful sessions",
        aws="requests of a session go to the instance that opened it (guide, stateful-sessions)",
        here="same; an id that no container opened goes anywhere",
        client="boto3",
        held_by=(_WORKERS, "test_a_session_stays_with_the_instance_that_opened_it_until_it_is_closed"),
    ),
    Row(
        what="data capture",
        aws="JSON lines below endpoint/variant/yyyy/mm/dd/hh; CSV, JSON, BASE64; a share of requests (guide, "
        "model-monitor-data-capture)",
        here="same; written after a second, not minutes",
        client="boto3",
        held_by=(_CALLS, "test_capture_writes_sagemakers_records_by_variant_and_hour"),
    ),
    Row(
        what="metrics of a variant",
        aws="Invocations, errors, latencies in microseconds, concurrency, first chunk (guide, monitoring-cloudwatch)",
        here="same names, units and dimensions; also by config",
        client="boto3",
        held_by=(_CALLS, "test_metrics_count_invocations_errors_and_microseconds_by_variant"),
    ),
    Row(
        what="shadow variants",
        aws="one beside one production variant; a share is mirrored, answers are dropped and captured",
        here="same; share is the shadow's weight over the production variant's",
        client="boto3",
        held_by=(_HOSTING, "test_a_shadow_sees_its_share_answers_nobody_and_is_captured"),
    ),
    Row(
        what="InvokeEndpointAsync",
        aws="202; answer in S3, failure at S3FailurePath, a notice to SNS (guide, async-inference)",
        here="same",
        client="boto3",
        held_by=(_HOSTING, "test_an_asynchronous_answer_lies_in_s3_and_a_topic_tells_of_it"),
    ),
    Row(
        what="what waits and what runs of an asynchronous endpoint when the service restarts",
        aws="is kept; at least once",
        here="same: one file, the answer at the promised place; deleting the endpoint takes its queue along",
        client="boto3",
        held_by=(_HOSTING, "test_what_waits_and_what_runs_survives_a_restart_and_answers_at_the_promised_place"),
    ),
    Row(
        what="asynchronous endpoint without instances",
        aws="the backlog waits; ApproximateBacklogSize, HasBacklogWithoutCapacity",
        here="same",
        client="boto3",
        held_by=(_HOSTING, "test_an_endpoint_without_instances_keeps_its_backlog_until_there_are_some"),
    ),
    Row(
        what="inference components",
        aws="several on one endpoint, called by name; copies down to 0",
        here="same; one specification each, no adapters; computing resources are not counted",
        client="boto3",
        held_by=(_HOSTING, "test_components_share_an_endpoint_and_are_called_by_name"),
    ),
    Row(
        what="UpdateInferenceComponent, rolling",
        aws="batches of 5 to 50 percent of the copies, each bakes; alarms take it back (API "
        "InferenceComponentRollingUpdatePolicy)",
        here="same; the old copies answer until the new ones are healthy; an update taken back says FailureReason; a "
        "share is one of requests",
        client="boto3",
        held_by=(_COMPONENTS, "test_copies_are_replaced_batch_by_batch_and_the_old_ones_answer_until_then"),
    ),
    Row(
        what="AWS::SageMaker::InferenceComponent",
        aws="created, changed in place, deleted",
        here="same",
        client="resource type over boto3",
        held_by=(_HOSTING, "test_cloudformation_makes_changes_and_removes_a_component"),
    ),
    Row(
        what="target tracking, step scaling, cooldowns, bounds",
        aws="proportional, largest policy wins, scale-in waits (Application Auto Scaling guide)",
        here="same with `local up --scale`",
        client="boto3; pure rules",
        held_by=(_ALARM_CALLS, "test_load_above_the_target_rings_the_policys_alarm_which_adds_instances"),
    ),
    Row(
        what="a component at 0 copies wakes",
        aws="by a step policy on an alarm (guide, zero instances)",
        here="same with `--scale`",
        client="stand-ins of boto3's clients",
        held_by=(_WATCH, "test_a_component_at_zero_wakes_by_the_alarm_that_names_the_policy"),
    ),
    Row(
        what="rules at a rate",
        aws="the countdown begins when the rule is made (EventBridge guide, rate expressions)",
        here="same, on the stack's time; looked at every ten seconds, four times a second at pace 40 and above",
        client="ministack's own calls",
        held_by=(_PACE, "test_a_scheduled_rule_fires_when_its_rate_has_passed_on_the_stacks_time"),
    ),
    Row(
        what="a clock that is set back",
        aws="leap seconds are smeared (EC2 guide, Amazon Time Sync Service); of a wrong clock nothing is documented",
        here="timestamps stay in order: half the pace until it has caught up; functions and commands see the jump",
        client="pure rules",
        held_by=(_TIME, "test_smooth_time_never_goes_back_and_never_stands_still"),
    ),
    Row(
        what="alarms: M of N, percentiles, missing data",
        aws="CloudWatch guide, missing data",
        here="same",
        client="pure rules",
        held_by=(_ALARMS, "*"),
    ),
    Row(
        what="the alarms of target tracking",
        aws="AlarmHigh, AlarmLow in DescribeAlarms and in the policy's answers; gone with it (guide, target tracking)",
        here="same; the policy acts while one of them rings; which statistic of concurrency AWS takes is not known",
        client="boto3 and its paginators",
        held_by=(_ALARM_CALLS, "test_a_tracking_policy_shows_its_two_alarms_until_it_is_deleted"),
    ),
    Row(
        what="scheduled scaling: at, rate, cron, time zone, start and end",
        aws="minimum and maximum change, capacity outside of them follows (guide, scheduled scaling)",
        here="same with `--scale`; what was due several times between two looks counts once; W of cron is refused",
        client="boto3 and its paginators",
        held_by=(_ALARM_CALLS, "test_a_scheduled_action_changes_the_range_and_is_told_as_an_activity"),
    ),
    Row(
        what="alarms on metric math",
        aws="one time series made of others (guide, using metric math)",
        here="same functions and gaps; of metrics with several periods the longest counts: AWS does not say",
        client="boto3; numpy as an oracle",
        held_by=(_METRIC_MATH, "test_random_expressions_over_random_series_give_what_numpy_gives"),
    ),
    Row(
        what="PutMetricAlarm with what CloudWatch refuses",
        aws="ValidationError",
        here="same, in templates too; so are SEARCH, anomaly bands, trimmed statistics, suppressed actions and "
        "actions but topics and scaling policies, which are not here",
        client="boto3, the query protocol",
        held_by=(_ALARM_REQUESTS, "test_what_it_refuses_is_refused_by_name"),
    ),
    Row(
        what="GetMetricData, GetMetricStatistics",
        aws="metrics with exactly these dimensions, percentiles; GetMetricData also expressions, the newest first",
        here="same; the whole answer is one page, of any period; a percentile is a value that was seen",
        client="boto3 and its paginator, the query protocol",
        held_by=(_ALARM_CALLS, "test_metric_data_has_expressions_percentiles_and_exact_dimensions"),
    ),
    Row(
        what="actions and history of an alarm",
        aws="once a change of state; SetAlarmState lasts until the next evaluation (API SetAlarmState)",
        here="same; looked at every two seconds; EventBridge is told, of composite alarms too",
        client="boto3, SNS to SQS",
        held_by=(_ALARM_CALLS, "test_an_alarm_on_an_expression_rings_once_for_its_own_variant"),
    ),
    Row(
        what="composite alarms",
        aws="AND, OR, NOT over the states of others (API PutCompositeAlarm)",
        here="same; a template's AWS::CloudWatch::CompositeAlarm is refused",
        client="boto3",
        held_by=(_ALARM_CALLS, "test_a_composite_alarm_follows_the_states_of_others"),
    ),
    Row(
        what="a function's call that its role does not allow",
        aws="refused, with the action, the resource and the session (IAM guide, access denied messages)",
        here="same text and code; which status CloudWatch's JSON answers is not known",
        client="boto3 in a function",
        held_by=(_ROLES, "test_a_call_needs_its_action_on_its_resource"),
    ),
    Row(
        what="evaluation of policies",
        aws="deny, then allow within the boundary; NotAction, NotResource, conditions, variables (IAM guide)",
        here="same for identity policies of one account; resource and session policies are not asked",
        client="pure rules, beside ministack's",
        held_by=(_POLICY, "test_another_implementation_decides_alike"),
    ),
    Row(
        what="GetObject of an absent key without s3:ListBucket",
        aws="403, not 404 (API GetObject)",
        here="same",
        client="boto3 in a function",
        held_by=(_ROLES, "test_who_may_not_list_a_bucket_is_not_told_that_an_object_is_absent"),
    ),
    Row(
        what="a background call of a function fails",
        aws="two retries, then the dead-letter queue (Lambda guide, asynchronous invocation)",
        here="same; a second and two between them",
        client="boto3, EventBridge, SQS",
        held_by=(_TRIGGERS, "test_a_rules_function_that_fails_is_called_three_times_and_the_event_kept"),
    ),
    Row(
        what="a batch of a stream fails",
        aws="retries, halves, reported items, a destination for what is given up (Lambda guide, Kinesis)",
        here="same; the condition told for records past their age is not known",
        client="boto3, Kinesis, DynamoDB, SQS",
        held_by=(_TRIGGERS, "test_a_stream_splits_a_failing_batch_and_tells_its_destination_which_record"),
    ),
    Row(
        what="S3 busy, a conditional write that loses or races",
        aws="503 SlowDown, 412 PreconditionFailed, 409 ConditionalRequestConflict (S3 guide, conditional writes)",
        here="same, when `local fault add s3-…` asks for it; 412 by itself as well",
        client="boto3",
        held_by=(_SERVICE_FAULTS, "test_a_conditional_write_meets_the_fault_of_its_bucket_prefix_and_operation"),
    ),
    Row(
        what="DynamoDB throttles",
        aws="400 ProvisionedThroughputExceededException (DynamoDB guide, error handling)",
        here="same, when `local fault add dynamodb-throttle` asks for it",
        client="boto3",
        held_by=(_SERVICE_FAULTS, "test_a_throttled_table_refuses_and_another_does_not"),
    ),
    Row(
        what="lists and statuses",
        aws="pages with NextToken; endpoint_in_service, endpoint_deleted",
        here="same",
        client="boto3's paginators and waiters",
        held_by=(_BOTO3, "test_a_paginator_gives_each_once_whatever_the_size_of_a_page"),
    ),
    Row(
        what="deploy, ask, change weights, delete",
        aws="by the AWS CLI",
        here="same",
        client="AWS CLI (`make test-train`)",
        held_by=(_CLIENTS, "test_the_aws_cli_deploys_asks_reweighs_and_deletes_an_endpoint"),
    ),
    Row(
        what="deploy, predict (JSON, NPY, CSV, stream, asynchronous), update, delete",
        aws="by the SageMaker Python SDK",
        here="same, in a session with a named default bucket: for another the SDK asks STS at AWS itself",
        client="SageMaker SDK, Predictor and sagemaker-core (`make test-train`)",
        held_by=(_CLIENTS, "test_the_sagemaker_sdk_deploys_predicts_in_every_form_and_deletes"),
    ),
)


def table() -> str:
    """Give the table as it stands in the page."""
    lines = ["| behaviour | AWS | here | verified by |", "| --- | --- | --- | --- |"]
    lines += [f"| {row.what} | {row.aws} | {row.here} | {row.client} |" for row in ROWS]
    return "\n".join(lines)


def written(page: str) -> str:
    """Give the page with the table between its marks."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
