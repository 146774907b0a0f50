"""An accelerator goes by the names of boards, of `nvidia-smi` and of people, and never by another one's."""

from __future__ import annotations

import pytest

from estimator.hardware import ALIASES, resolve_gpu
from warehouse.catalog import read_catalog


@pytest.fixture(scope="module")
def ids() -> list[str]:
    return [str(gpu_id) for gpu_id in read_catalog("accelerators")["gpu_id"]]


@pytest.mark.parametrize(
    ("name", "gpu_id"),
    [
        ("H100 SXM5 80GB", "H100-SXM"),
        ("NVIDIA H100 80GB HBM3", "H100-SXM"),
        ("h10080gb", "H100-SXM"),
        ("NVIDIA H100 PCIe", "H100-PCIe"),
        ("NVIDIA H100 NVL", "H100-NVL"),
        ("NVIDIA A100-SXM4-80GB", "A100-80GB-SXM"),
        ("NVIDIA A100-SXM4-40GB", "A100-40GB-SXM"),
        ("NVIDIA A100 80GB PCIe", "A100-80GB-PCIe"),
        ("NVIDIA A100-PCIE-40GB", "A100-40GB-PCIe"),
        ("A100 PCIe 80 GiB", "A100-80GB-PCIe"),
        ("a100sxm480gb", "A100-80GB-SXM"),
        ("Tesla V100-SXM2-32GB", "V100-SXM2-32GB"),
        ("Tesla T4", "T4"),
        ("NVIDIA GeForce RTX 4090", "RTX-4090"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX-6000-Ada"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX-PRO-6000-Blackwell-Server"),
        ("NVIDIA B300 SXM6 AC", "B300-SXM"),
        ("NVIDIA GH200 144G HBM3e", "GH200-144GB"),
        ("AMD Instinct MI300X", "MI300X"),
        ("华为昇腾 910B3", "Ascend-910B3"),
        ("昇腾910B", "Ascend-910B3"),
        ("Google TPU v6e", "TPU-v6e"),
    ],
)
def test_an_accelerator_goes_by_many_names(ids: list[str], name: str, gpu_id: str) -> None:
    assert resolve_gpu(name, ids) == gpu_id


@pytest.mark.parametrize(
    "name",
    ["", "NVIDIA", "GB", "V100", "A100 PCIe", "H1000", "H100-96", "H100 x8", "RTX 4090 D", "RTX 4090 48GB",
     "GH200 480GB", "RTX PRO 6000 Blackwell Workstation Edition", "MI300A", "昇腾"],
)  # fmt: skip
def test_a_name_of_another_accelerator_or_of_several_is_none(ids: list[str], name: str) -> None:
    assert resolve_gpu(name, ids) is None


def test_every_id_and_every_alias_means_one_accelerator_however_it_is_spelt(ids: list[str]) -> None:
    for name, gpu_id in [*ALIASES.items(), *((gpu_id, gpu_id) for gpu_id in ids)]:
        for spelt in (name, name.lower(), name.replace("-", " "), name.replace(" ", "-"), f"NVIDIA {name}"):
            assert resolve_gpu(spelt, ids) == gpu_id, spelt
