"""Functions, table, cache and schedules of a stage carry the names and limits that the code relies on."""

from __future__ import annotations

import json
from typing import Any

from aws_cdk.assertions import Match, Template

FUNCTION = "AWS::Lambda::Function"
# ElastiCache user guide: engines of serverless caches and of replication groups; node types of the r7g family.
VALKEY = "valkey"
R7G = {"cache.r7g.large", "cache.r7g.xlarge", "cache.r7g.2xlarge", "cache.r7g.4xlarge"}


def functions(stage: Any) -> dict[str, Any]:
    return {found.props["FunctionName"].rsplit("-", 1)[1]: found for found in stage.all(FUNCTION)}


def variables(found: Any) -> dict[str, Any]:
    names: dict[str, Any] = found.props["Environment"]["Variables"]
    return names


def test_three_functions_run_their_own_handlers_on_the_runtime_of_the_built_wheels(stage: Any) -> None:
    found = functions(stage)
    assert set(found) == {"predict", "release", "drift"}
    for name, function in found.items():
        assert function.props["FunctionName"] == f"streamhub-{stage.stage.name}-{name}"
        assert function.props["Handler"] == f"lambdas.{name}.handler.handler"
        assert function.props["Runtime"] == "python3.12"
        assert function.props["Architectures"] == ["arm64"]
        assert function.props["TracingConfig"] == {"Mode": "Active"}


def test_each_function_gets_the_names_it_reads_and_no_other(stage: Any) -> None:
    found = functions(stage)
    buckets = {"STREAMHUB_REGISTRY_BUCKET", "STREAMHUB_TELEMETRY_BUCKET"}
    assert set(variables(found["predict"])) == {"STREAMHUB_STAGE", "STREAMHUB_STATE_TABLE", "STREAMHUB_FEATURES_URL"}
    assert set(variables(found["release"])) == {"STREAMHUB_STAGE", "STREAMHUB_STATE_TABLE", *buckets}
    assert set(variables(found["drift"])) == {"STREAMHUB_STAGE", *buckets}
    assert {variables(function)["STREAMHUB_STAGE"] for function in found.values()} == {stage.stage.name}


def test_features_are_read_over_tls(stage: Any) -> None:
    parts = variables(functions(stage)["predict"])["STREAMHUB_FEATURES_URL"]["Fn::Join"][1]
    assert (parts[0], parts[-1]) == ("valkeys://", ":6379")


def test_only_the_api_function_is_inside_the_network(stage: Any) -> None:
    inside = {name for name, function in functions(stage).items() if "VpcConfig" in function.props}
    assert inside == {"predict"}


def test_ticks_of_the_release_controller_take_turns(stage: Any) -> None:
    found = functions(stage)
    assert found["release"].props["ReservedConcurrentExecutions"] == 1
    assert "ReservedConcurrentExecutions" not in found["predict"].props


def test_every_log_group_is_named_and_kept_as_long_as_the_stage_says(stage: Any) -> None:
    groups = {found.props["LogGroupName"]: found.props for found in stage.all("AWS::Logs::LogGroup")}
    for function in functions(stage).values():
        assert f"/aws/lambda/{function.props['FunctionName']}" in groups
    assert {props["RetentionInDays"] for props in groups.values()} == {stage.stage.log_retention_days}


def test_the_state_table_has_the_keys_of_the_code_expires_items_and_can_be_restored(stage: Any) -> None:
    Template.from_json(stage.templates["api"]).has_resource(
        "AWS::DynamoDB::Table",
        {
            "Properties": {
                "TableName": f"streamhub-{stage.stage.name}-state",
                "KeySchema": [
                    {"AttributeName": "pk", "KeyType": "HASH"},
                    {"AttributeName": "sk", "KeyType": "RANGE"},
                ],
                "BillingMode": "PAY_PER_REQUEST",
                "TimeToLiveSpecification": {"AttributeName": "expires_at", "Enabled": True},
                "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True},
            }
        },
    )


def test_releases_are_decided_every_five_minutes_and_drift_once_a_window(stage: Any) -> None:
    rules = stage.all("AWS::Events::Rule", "release")
    events = {rule.props["Targets"][0]["Input"]: rule.props["ScheduleExpression"] for rule in rules}
    expected = {"{}": "rate(5 minutes)"}
    for model in stage.slotted():
        expected[json.dumps({"model": model.name}, separators=(",", ":"))] = "rate(1 hour)"
    assert events == expected


def test_the_cache_is_valkey_with_a_user_who_logs_in_by_iam(stage: Any) -> None:
    user = stage.one("AWS::ElastiCache::User", "features").props
    assert user["Engine"] == VALKEY
    assert user["AuthenticationMode"] == {"Type": "iam"}
    assert user["UserId"] == user["UserName"] == f"streamhub-{stage.stage.name}-features"  # IAM wants them equal
    assert {"-@admin", "-@dangerous"} <= set(user["AccessString"].split())


def test_dev_and_staging_have_a_serverless_cache(dev: Any, staging: Any) -> None:
    for stage in (dev, staging):
        cache = stage.one("AWS::ElastiCache::ServerlessCache", "features").props
        assert cache["Engine"] == VALKEY
        assert cache["CacheUsageLimits"]["DataStorage"] == {"Maximum": 5, "Unit": "GB"}
        assert not stage.all("AWS::ElastiCache::ReplicationGroup")


def test_prods_cache_has_a_node_a_zone_fails_over_and_encrypts(prod: Any) -> None:
    Template.from_json(prod.templates["features"]).has_resource_properties(
        "AWS::ElastiCache::ReplicationGroup",
        {
            "Engine": VALKEY,
            "NumCacheClusters": 3,
            "AutomaticFailoverEnabled": True,
            "MultiAZEnabled": True,
            "AtRestEncryptionEnabled": True,
            "TransitEncryptionEnabled": True,
            "TransitEncryptionMode": "required",
            "Port": 6379,
            "UserGroupIds": Match.any_value(),
        },
    )
    assert prod.one("AWS::ElastiCache::ReplicationGroup", "features").props["CacheNodeType"] in R7G


def test_only_functions_reach_the_cache(stage: Any) -> None:
    (rule,) = stage.one("AWS::EC2::SecurityGroup", "features").props["SecurityGroupIngress"]
    assert rule["FromPort"] == rule["ToPort"] == 6379
    assert "NetworkFunctions" in rule["SourceSecurityGroupId"]["Fn::GetStackOutput"]["OutputName"]


def test_a_subnet_stands_in_each_zone_of_the_stage_file(stage: Any) -> None:
    zones = [subnet.props["AvailabilityZone"] for subnet in stage.all("AWS::EC2::Subnet")]
    assert zones == list(stage.stage.availability_zones)


def test_the_network_pays_for_no_endpoint_that_nobody_calls(stage: Any) -> None:
    kinds = [endpoint.props["VpcEndpointType"] for endpoint in stage.all("AWS::EC2::VPCEndpoint")]
    assert sorted(kinds) == ["Gateway", "Gateway", "Interface"]
    (interface,) = [e for e in stage.all("AWS::EC2::VPCEndpoint") if e.props["VpcEndpointType"] == "Interface"]
    assert interface.props["ServiceName"].endswith(".sagemaker.runtime")


def test_kept_stages_log_refused_flows(dev: Any, prod: Any) -> None:
    assert not dev.all("AWS::EC2::FlowLog")
    assert prod.one("AWS::EC2::FlowLog", "network").props["TrafficType"] == "REJECT"


def test_a_scheduled_event_that_fails_each_time_is_kept_and_told(stage: Any) -> None:
    queue = stage.one("AWS::SQS::Queue", "release")
    assert queue.props["MessageRetentionPeriod"] == 14 * 24 * 3600  # SQS quotas: the longest there is
    assert queue.props["SqsManagedSseEnabled"] is True
    for name in ("release", "drift"):
        target = functions(stage)[name].props["DeadLetterConfig"]["TargetArn"]
        assert target == {"Fn::GetAtt": [queue.id, "Arn"]}
    (alarm,) = [
        found.props for found in stage.all("AWS::CloudWatch::Alarm", "release") if "failures" in str(found.props)
    ]
    assert (alarm["MetricName"], alarm["Threshold"]) == ("ApproximateNumberOfMessagesVisible", 0)


CACHE_ALARMS = {"evictions", "connections", "logins", "memory"}


def cache_alarms(stage: Any) -> dict[str, Any]:
    prefix = f"streamhub-{stage.stage.name}-features-"
    return {
        found.props["AlarmName"].removeprefix(prefix): found.props
        for found in stage.all("AWS::CloudWatch::Alarm", "features")
    }


def test_a_serverless_cache_tells_before_its_limits_refuse(dev: Any) -> None:
    found = cache_alarms(dev)
    assert set(found) == CACHE_ALARMS | {"throttles", "ecpu"}
    cache = dev.one("AWS::ElastiCache::ServerlessCache", "features").props
    limits = cache["CacheUsageLimits"]
    assert 0 < found["memory"]["Threshold"] < limits["DataStorage"]["Maximum"] * 1024**3
    assert 0 < found["ecpu"]["Threshold"] < limits["ECPUPerSecond"]["Maximum"] * found["ecpu"]["Period"]
    for props in found.values():
        assert props["Namespace"] == "AWS/ElastiCache"
        assert props["Dimensions"] == [{"Name": "clusterId", "Value": cache["ServerlessCacheName"]}]


def test_a_replicated_cache_is_watched_by_its_worst_node(prod: Any) -> None:
    found = cache_alarms(prod)
    assert set(found) == CACHE_ALARMS | {"cpu", "lag"}
    nodes = prod.one("AWS::ElastiCache::ReplicationGroup", "features").props["NumCacheClusters"]
    members = {f"streamhub-prod-features-{number:03d}" for number in range(1, nodes + 1)}
    for props in found.values():
        using = [row["MetricStat"]["Metric"]["Dimensions"] for row in props["Metrics"] if "MetricStat" in row]
        assert {pair["Value"] for dimensions in using for pair in dimensions} == members


def test_caches_are_kept_in_snapshots_by_stage(dev: Any, staging: Any, prod: Any) -> None:
    serverless = {
        stage.stage.name: stage.one("AWS::ElastiCache::ServerlessCache", "features") for stage in (dev, staging)
    }
    assert serverless["dev"].props["SnapshotRetentionLimit"] == 0
    assert "FinalSnapshotName" not in serverless["dev"].props
    assert serverless["staging"].props["SnapshotRetentionLimit"] == 7
    assert serverless["staging"].props["FinalSnapshotName"] == "streamhub-staging-features-final"
    group = prod.one("AWS::ElastiCache::ReplicationGroup", "features")
    assert group.props["SnapshotRetentionLimit"] == 7
    assert group.entry["DeletionPolicy"] == group.entry["UpdateReplacePolicy"] == "Snapshot"


def test_nobody_logs_in_to_the_cache_without_a_token(stage: Any) -> None:
    users = stage.all("AWS::ElastiCache::User")
    assert [user.props["AuthenticationMode"] for user in users] == [{"Type": "iam"}]
    group = stage.one("AWS::ElastiCache::UserGroup", "features").props
    assert group["UserIds"] == [{"Ref": users[0].id}]


def test_what_clients_see_is_alarmed_by_the_longest_deadline_of_the_stage(stage: Any) -> None:
    named = {found.props["AlarmName"]: found.props for found in stage.all("AWS::CloudWatch::Alarm", "monitoring")}
    p99 = named[f"streamhub-{stage.stage.name}-api-p99"]
    deadlines = [
        entry.deadline_ms if entry.deadline_ms is not None else stage.project.models[name].budget.deadline_ms
        for name, entry in stage.stage.models.items()
    ]
    assert p99["Threshold"] == max(deadlines)
    assert (p99["MetricName"], p99["ExtendedStatistic"]) == ("Latency", "p99")
    errors = named[f"streamhub-{stage.stage.name}-api-errors"]
    assert 0 < errors["Threshold"] < 1
