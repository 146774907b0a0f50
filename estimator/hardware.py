"""Accelerators as the capacity maths sees them: what an engine can use, at dense rates; and the names they go by."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

GIB = 2**30
GB = 10**9


@dataclass(frozen=True, slots=True)
class Accelerator:
    """One accelerator. Rates are dense (no sparsity); None where no source gives one.

    `visible_memory_gib` is what an engine sees at start-up, not the label on the box.
    `interconnect_gbs` is the link to its peers, both directions together; 0 where they meet over PCIe only.
    """

    gpu_id: str
    visible_memory_gib: float
    memory_bandwidth_gbs: float
    fp16_dense_tflops: float
    fp8_dense_tflops: float | None = None
    int8_dense_tops: float | None = None
    fp4_dense_tflops: float | None = None
    interconnect_gbs: float = 0.0
    pcie_gen: int | None = None


ALIASES = {
    "h100": "H100-SXM",
    "h10080gb": "H100-SXM",
    "h100sxm5": "H100-SXM",
    "h10080gbsxm": "H100-SXM",
    "h10080gbsxm5": "H100-SXM",
    "h100sxm80gb": "H100-SXM",
    "h10080gbhbm3": "H100-SXM",
    "h100pcie80gb": "H100-PCIe",
    "h200": "H200-SXM",
    "h200141gb": "H200-SXM",
    "h200sxm141gb": "H200-SXM",
    "h800": "H800-SXM",
    "h20": "H20-96GB",
    "a100": "A100-80GB-SXM",
    "a10080g": "A100-80GB-SXM",
    "h10080g": "H100-SXM",
    "mi300x192gb": "MI300X",
    "instinctmi300x": "MI300X",
    "instinctmi325x": "MI325X",
    "a10080gb": "A100-80GB-SXM",
    "a100sxm": "A100-80GB-SXM",
    "a100sxm480gb": "A100-80GB-SXM",
    "a100sxm80gb": "A100-80GB-SXM",
    "a10040gb": "A100-40GB-SXM",
    "a100sxm440gb": "A100-40GB-SXM",
    "a100pcie80gb": "A100-80GB-PCIe",
    "a100pcie40gb": "A100-40GB-PCIe",
    "b200": "B200-SXM",
    "b300": "B300-SXM",
    "gh200": "GH200-144GB",
    "3090": "RTX-3090",
    "rtx309024gb": "RTX-3090",
    "geforcertx3090": "RTX-3090",
    "4090": "RTX-4090",
    "rtx409024gb": "RTX-4090",
    "geforcertx4090": "RTX-4090",
    "5090": "RTX-5090",
    "rtx509032gb": "RTX-5090",
    "geforcertx5090": "RTX-5090",
    "rtxpro6000": "RTX-PRO-6000-Blackwell-Server",
    "rtxpro6000blackwell": "RTX-PRO-6000-Blackwell-Server",
    "l40s48gb": "L40S",
    "l2048gb": "L20",
    "l424gb": "L4",
    "a1024gb": "A10",
    "teslat4": "T4",
    "t416gb": "T4",
    "v10032gb": "V100-SXM2-32GB",
    "v10016gb": "V100-SXM2-16GB",
    "910b": "Ascend-910B3",
    "ascend910b": "Ascend-910B3",
}
"""Other names of catalogue accelerators, letters and digits only; the SXM board of the larger memory where a bare
name leaves it open."""


def resolve_gpu(name: str, gpu_ids: Iterable[str]) -> str | None:
    """The catalogue id a GPU's name means, or None. Case, spaces, dashes and the vendor's name do not matter.

    >>> resolve_gpu("H100 80GB SXM", ["H100-SXM"])
    'H100-SXM'
    """
    by_key = {_key(gpu_id): gpu_id for gpu_id in gpu_ids}
    key = _key(name)
    if key in by_key:
        return by_key[key]
    alias = ALIASES.get(key)
    return alias if alias is not None and alias in by_key.values() else None


def _key(name: str) -> str:
    return re.sub(r"nvidia|amd|intel|huawei|[^a-z0-9]", "", name.lower())
