"""Devices that resource claims give, in the shapes of all versions of the API."""

import pytest

from etcompile.k8s.requests import claimed, devices

POD = {"resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": "four"}]}
CONTAINER = {"resources": {"claims": [{"name": "gpus"}]}}


def count(*requests, container=CONTAINER, name="four"):
    claims = {("ResourceClaimTemplate", name): {"devices": {"requests": [*requests]}}}
    return claimed(container, POD, claims)


@pytest.mark.parametrize(
    ("requests", "number"),
    [
        ([{"name": "a", "exactly": {"count": 4}}], 4),
        ([{"name": "a", "exactly": {}}], 1),
        ([{"name": "a", "deviceClassName": "gpu", "count": 4}], 4),
        ([{"name": "a", "exactly": {"count": 4}}, {"name": "b", "exactly": {"count": 2}}], 6),
        ([{"name": "a", "exactly": {"allocationMode": "ExactCount", "count": 2}}], 2),
        ([{"name": "a", "exactly": {"allocationMode": "All"}}], None),
        ([{"name": "a", "firstAvailable": [{"count": 2}, {"count": 2}]}], 2),
        ([{"name": "a", "firstAvailable": [{"count": 2}, {"count": 4}]}], None),
        ([{"name": "a", "exactly": {"count": "4"}}], None),
        ([{"name": "a", "exactly": ["x"]}, "b"], None),
    ],
)
def test_devices_of_a_claim_are_counted_if_their_number_is_certain(requests, number):
    assert count(*requests) == number


def test_container_that_names_a_request_gets_its_devices_only():
    named = {"resources": {"claims": [{"name": "gpus", "request": "b"}]}}
    two = {"name": "a", "exactly": {"count": 4}}, {"name": "b", "exactly": {"count": 2}}
    assert count(*two, container=named) == 2


def test_devices_of_a_claim_that_is_elsewhere_are_not_known():
    assert count({"name": "a", "exactly": {"count": 4}}, name="other") is None


@pytest.mark.parametrize(
    ("name", "number"),
    [
        *((name, 4) for name in ("nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "amd.com/gpu")),
        *((name, 4) for name in ("gpu.intel.com/xe", "habana.ai/gaudi", "google.com/tpu")),
        *((name, 4) for name in ("aws.amazon.com/neuroncore", "huawei.com/Ascend310P")),
        *((name, 0) for name in ("nvidia.com/gpumem", "aliyun.com/gpu-mem", "cpu", "rdma/hca")),
        *((name, 0) for name in ("gpu.intel.com/i915_monitoring", "tencent.com/vcuda-core")),
    ],
)
def test_resource_is_a_device_or_a_share_of_one(name, number):
    assert sum(devices({"resources": {"limits": {name: 4}}}).values()) == number
