"""Accelerators as the capacity maths sees them: what an engine can use, at dense rates; and the names they go by.

Belongs here: the shape of an accelerator and resolving a name. Does not: figures (`warehouse/catalog`).
"""

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
    `node_gpus` of them meet over that link; 8, the usual server, is assumed where no source says.
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
    node_gpus: int = 8


_NAMES: dict[str, tuple[str, ...]] = {
    "H100-SXM": ("H100", "H100 80GB", "H100 SXM 80GB", "H100 80GB HBM3", "H100 SXM 80GB HBM3", "HGX H100", "DGX H100"),
    "H100-PCIe": ("H100 PCIe 80GB", "H100 PCIe 80GB HBM2e"),
    "H100-NVL": ("H100 NVL 94GB",),
    "H200-SXM": ("H200", "H200 141GB", "H200 SXM 141GB", "HGX H200", "DGX H200"),
    "H200-NVL": ("H200 NVL 141GB",),
    "H800-SXM": ("H800", "H800 80GB", "H800 SXM 80GB"),
    "H20-141GB": ("H20-3e", "H20 3e 141GB", "H20 141GB HBM3e"),
    "H20-96GB": ("H20", "H20 SXM", "H20 SXM 96GB"),
    "A100-80GB-SXM": ("A100", "A100 80GB", "A100 SXM", "A100 SXM 80GB"),
    "A800-80GB-SXM": ("A800", "A800 80GB", "A800 SXM", "A800 SXM 80GB"),
    "RTX-A6000": ("A6000", "RTX A6000 48GB"),
    "A100-40GB-SXM": ("A100 40GB", "A100 SXM 40GB"),
    "B200-SXM": ("B200", "B200 180GB", "B200 SXM 180GB", "B200 192GB", "HGX B200", "DGX B200"),
    "B300-SXM": ("B300", "B300 288GB", "B300 SXM AC", "B300 SXM 288GB", "HGX B300", "DGX B300"),
    "GB200": ("GB200 NVL72",),
    "GB300": ("GB300 NVL72",),
    "GH200-144GB": ("GH200", "GH200 144GB HBM3e"),
    "GB10": ("DGX Spark", "GB10 DGX Spark", "GB10 128GB"),
    "L4": ("L4 24GB",),
    "L20": ("L20 48GB",),
    "L40": ("L40 48GB",),
    "L40S": ("L40S 48GB",),
    "A10": ("A10 24GB",),
    "A10G": ("A10G 24GB",),
    "A30": ("A30 24GB",),
    "A40": ("A40 48GB",),
    "T4": ("T4 16GB",),
    "V100-SXM2-32GB": ("V100 32GB",),
    "V100-SXM2-16GB": ("V100 16GB",),
    "RTX-3090": ("3090", "RTX 3090 24GB"),
    "RTX-4090": ("4090", "RTX 4090 24GB"),
    "RTX-5090": ("5090", "RTX 5090 32GB"),
    "RTX-6000-Ada": ("6000 Ada", "RTX 6000 Ada 48GB"),
    "RTX-PRO-6000-Blackwell-Server": (
        "RTX PRO 6000",
        "RTX PRO 6000 Blackwell",
        "RTX PRO 6000 Server",
        "RTX PRO 6000 96GB",
    ),
    "MI300X": ("MI300X 192GB", "MI300X OAM"),
    "MI325X": ("MI325X 256GB", "MI325X OAM"),
    "MI350X": ("MI350X 288GB",),
    "MI355X": ("MI355X 288GB",),
    "Ascend-910A": ("910A",),
    "Ascend-910B1": ("910B1",),
    "Ascend-910B2": ("910B2",),
    "Ascend-910B3": ("910B", "910B3", "Ascend 910B", "910B 64GB", "Ascend 910B 64GB"),
    "Ascend-910B4": ("910B4", "910B 32GB", "Ascend 910B 32GB"),
    "TPU-v5e": ("v5e",),
    "TPU-v5p": ("v5p",),
    "TPU-v6e": ("v6e", "Trillium", "TPU Trillium"),
    "TPU-7x": ("Ironwood", "TPU v7", "TPU Ironwood"),
    "Trainium1": ("trn1",),
    "Trainium2": ("trn2",),
    "MXC500": ("C500", "MetaX C500"),
    "Kunlun-P800": ("P800",),
    "MTT-S4000": ("S4000",),
}
ALIASES = {name: gpu_id for gpu_id, names in _NAMES.items() for name in names}
"""Other names of catalogue accelerators, as boards, `nvidia-smi` and people have them; the SXM board of the larger
memory where a bare name leaves it open."""

_MAKERS = frozenset(
    "nvidia amd intel huawei google aws tesla geforce quadro instinct cambricon hygon generation edition".split()  # noqa: SIM905 - read as a list
)
"""Words that tell no two accelerators apart."""
_CHINESE = {"昇腾": " ascend ", "昆仑": " kunlun "}


def resolve_gpu(name: str, gpu_ids: Iterable[str]) -> str | None:
    """The catalogue id a GPU's name means, or None.

    Case, spaces, dashes, the maker, the generation of an SXM socket and the order of the words do not matter.

    >>> resolve_gpu("NVIDIA H100 SXM5 80GB", ["H100-SXM"])
    'H100-SXM'
    """
    known = list(gpu_ids)
    by_name = {gpu_id: gpu_id for gpu_id in known} | {a: i for a, i in ALIASES.items() if i in known}
    words = _words(name)
    glued = {"".join(_words(spelt)): gpu_id for spelt, gpu_id in reversed(by_name.items())}
    ordered = {frozenset(_words(spelt)): gpu_id for spelt, gpu_id in reversed(by_name.items())}
    return glued.get("".join(words)) or ordered.get(frozenset(words)) if words else None


def _words(name: str) -> list[str]:
    """The words of a name that tell accelerators apart: `80 GB` and `80G` are one word, as are SXM4 and SXM5."""
    text = name.lower()
    for chinese, english in _CHINESE.items():
        text = text.replace(chinese, english)
    text = re.sub(r"(\d)\s*g(?:i?b)?(?![a-z0-9])", r"\1g ", text)
    text = re.sub(r"sxm\d", "sxm", text)
    return [word for word in re.findall(r"[a-z0-9]+", text) if word not in _MAKERS]
