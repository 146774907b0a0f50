"""Accelerators as the capacity maths sees them: what an engine can use, at dense rates."""

from __future__ import annotations

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
