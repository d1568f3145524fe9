"""A private network: isolated subnets, no NAT, AWS services through endpoints that know this stage only."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.acknowledge import acknowledge, acknowledge_template
from infra.lifecycle import log_retention, removal_policy
from infra.service_endpoints import ServiceEndpoints
from serving.spec import StageSpec

CIDR = "10.20.0.0/16"
HTTPS = 443
CACHE_PORT = 6379


def admit(group: ec2.SecurityGroup, *, sources: Sequence[ec2.ISecurityGroup], port: int, description: str) -> None:
    """Let members of other groups in on one TCP port, as rules inside the group itself.

    A rule between groups is a resource of its own in CDK, which makes two more things to deploy and to order.
    """
    cfn = group.node.default_child
    if not isinstance(cfn, ec2.CfnSecurityGroup):
        raise TypeError(f"got {type(cfn).__name__}; allowed: a security group of this app")
    cfn.security_group_ingress = [
        ec2.CfnSecurityGroup.IngressProperty(
            ip_protocol="tcp",
            from_port=port,
            to_port=port,
            source_security_group_id=source.security_group_id,
            description=description,
        )
        for source in sources
    ]


class Network(Construct):
    """VPC over the stage's zones; `functions` and `models` are the groups of those who call out.

    Zones come from the stage file, because asking AWS for them would make synth depend on an account.
    """

    def __init__(self, scope: Construct, id_: str, *, stage: StageSpec, key: kms.IKey | None) -> None:
        super().__init__(scope, id_)
        self.vpc = ec2.Vpc(
            self,
            "Vpc",
            ip_addresses=ec2.IpAddresses.cidr(CIDR),
            availability_zones=list(stage.availability_zones),
            nat_gateways=0,
            restrict_default_security_group=False,
            subnet_configuration=[
                ec2.SubnetConfiguration(name="isolated", subnet_type=ec2.SubnetType.PRIVATE_ISOLATED, cidr_mask=20)
            ],
        )
        reason = "zones are the stage file's: asking for the account's would make synth depend on AWS"
        for subnet in self.vpc.isolated_subnets:
            acknowledge_template(subnet, "W3010", reason=reason)
        self.subnet_ids = [subnet.subnet_id for subnet in self.vpc.isolated_subnets]
        self.functions = self._callers("Functions", "functions and tasks of the prediction service")
        self.functions.add_egress_rule(ec2.Peer.ipv4(CIDR), ec2.Port.tcp(CACHE_PORT), "feature cache over TLS")
        self.models = self._callers("Models", "model containers: SageMaker fetches their archive from S3")
        self._endpoints(stage)
        self._flow_logs(stage, key)

    def _callers(self, id_: str, description: str) -> ec2.SecurityGroup:
        """Make a group that nobody reaches and that speaks TLS only.

        The addresses are open because a gateway endpoint answers at S3's and DynamoDB's public ones, whose prefix list
        has an id that only a look-up gives; the isolated subnets have no route to any other of them.
        """
        group = ec2.SecurityGroup(self, id_, vpc=self.vpc, description=description, allow_all_outbound=False)
        group.add_egress_rule(ec2.Peer.any_ipv4(), ec2.Port.tcp(HTTPS), "endpoints of AWS services")
        return group

    def _endpoints(self, stage: StageSpec) -> None:
        group = ec2.SecurityGroup(
            self, "Endpoints", vpc=self.vpc, description="interface endpoints of AWS services", allow_all_outbound=False
        )
        admit(group, sources=(self.functions,), port=HTTPS, description="AWS APIs over TLS")
        ServiceEndpoints(self, "Services", stage=stage, vpc=self.vpc, group=group)

    def _flow_logs(self, stage: StageSpec, key: kms.IKey | None) -> None:
        if stage.removal == "destroy":
            reason = "a stage that is thrown away keeps no flow logs; stages that are kept do"
            acknowledge(self.vpc, "AwsSolutions-VPC7", reason=reason)
            return
        group = logs.LogGroup(
            self,
            "FlowLogGroup",
            log_group_name=f"/streamhub/{stage.name}/vpc-flow-logs",
            encryption_key=key,
            retention=log_retention(stage),
            removal_policy=removal_policy(stage),
        )
        self.vpc.add_flow_log(
            "FlowLog",
            destination=ec2.FlowLogDestination.to_cloud_watch_logs(group),
            traffic_type=ec2.FlowLogTrafficType.REJECT,
        )
