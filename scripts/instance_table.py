"""Write the table of SageMaker inference instance types: `python -m scripts.instance_table`.

Three packages of the development environment hold what AWS publishes, so that no account is asked:
the enum `ProductionVariantInstanceType` of botocore's service model says which types exist; cfn-lint's
`aws_sagemaker_hosting` extension says in which regions the price list sells them; moto's copy of EC2
`DescribeInstanceTypes` says what is in each.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import botocore.session
import orjson

TABLE = Path(__file__).parent.parent / "serving/spec/data/instances.json"

# Families that EC2 describes no more (EC2 guide, *Previous generation instances*): GPU, memory of one in MiB, and by
# size vCPUs, memory in MiB and GPUs. Those it does not describe yet (dl1, p6e-gb200) are left out of the table.
_FORMER = {
    "p2": ("K80", 12_288, {"xlarge": (4, 62_464, 1), "8xlarge": (32, 499_712, 8), "16xlarge": (64, 749_568, 16)}),
    "p3": ("V100", 16_384, {"2xlarge": (8, 62_464, 1), "8xlarge": (32, 249_856, 4), "16xlarge": (64, 499_712, 8)}),
}


def rows() -> dict[str, dict[str, object]]:
    """Give type → vcpus, memory_mib, gpus, gpu, gpu_memory_mib (of one), nvme_gb, arm, burstable, regions."""
    known = {f"ml.{name}": _row(ec2) for name, ec2 in _ec2().items()} | dict(_former())
    sold = _regions()
    return {
        name: known[name] | {"regions": sorted(sold.get(name, ()))}
        for name in sorted(_endpoint_types())
        if name in known
    }


def render(table: dict[str, dict[str, object]]) -> bytes:
    """Give the committed form: one type a line, so that a change of AWS is a readable diff."""
    lines = (f'  "{name}": {orjson.dumps(row, option=orjson.OPT_SORT_KEYS).decode()}' for name, row in table.items())
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def _package(name: str) -> Path:
    """Give a package's folder without importing it."""
    found = find_spec(name)
    if found is None or found.origin is None:
        raise SystemExit(f"{name}: not installed; run make test once")
    return Path(found.origin).parent


def _endpoint_types() -> list[str]:
    model = botocore.session.get_session().get_service_model("sagemaker")
    shape: Any = model.shape_for("ProductionVariantInstanceType")  # a StringShape, which has its enum
    return list(shape.enum)


def _regions() -> dict[str, list[str]]:
    resource = _package("cfnlint") / "data/schemas/extensions/aws_sagemaker_hosting/instancetype_enum.json"
    sold: dict[str, list[str]] = {}
    for region, entry in orjson.loads(resource.read_bytes()).items():
        for name in entry["enum"] if isinstance(entry, dict) else ():
            sold.setdefault(name, []).append(region)
    return sold


def _ec2() -> dict[str, Any]:
    packed = (_package("moto") / "ec2/resources/instance_types.json.gz").read_bytes()
    described: dict[str, Any] = orjson.loads(gzip.decompress(packed))
    return described


def _row(ec2: dict[str, Any]) -> dict[str, object]:
    cards = ec2.get("GpuInfo", {}).get("Gpus", [])
    card: dict[str, Any] = cards[0] if cards else {"Count": 0, "Name": "", "MemoryInfo": {"SizeInMiB": 0}}
    return {
        "vcpus": ec2["VCpuInfo"]["DefaultVCpus"],
        "memory_mib": ec2["MemoryInfo"]["SizeInMiB"],
        "gpus": card["Count"],
        "gpu": card["Name"],
        "gpu_memory_mib": card["MemoryInfo"]["SizeInMiB"],
        "nvme_gb": ec2.get("InstanceStorageInfo", {}).get("TotalSizeInGB", 0),
        "arm": "arm64" in ec2["ProcessorInfo"]["SupportedArchitectures"],
        "burstable": ec2["BurstablePerformanceSupported"],
    }


def _former() -> Iterator[tuple[str, dict[str, object]]]:
    for family, (gpu, gpu_memory_mib, sizes) in _FORMER.items():
        for size, (vcpus, memory_mib, gpus) in sizes.items():
            yield (
                f"ml.{family}.{size}",
                {
                    "vcpus": vcpus,
                    "memory_mib": memory_mib,
                    "gpus": gpus,
                    "gpu": gpu,
                    "gpu_memory_mib": gpu_memory_mib,
                    "nvme_gb": 0,
                    "arm": False,
                    "burstable": False,
                },
            )


if __name__ == "__main__":
    TABLE.write_bytes(render(rows()))
