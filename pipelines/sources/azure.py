"""Azure's public LLM inference traces: 2023 and 2024 (three columns), and the 2025 multimodal one (four).

https://github.com/Azure/AzurePublicDataset (CC-BY-4.0). Lengths are tokens of the whole prompt and the whole answer.
2023 has seven decimals and no zone; 2024 mixes whole seconds with decimals at +00:00; 2025 writes Z.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.sources.arrivals import written
from pipelines.sources.columns import Reading, whole
from pipelines.sources.layout import Cells, Layout, TraceOptions


def _readings(_: str, cells: Cells, options: TraceOptions, __: Sequence[str]) -> tuple[list[Reading], list[str]]:
    notes = ["lengths in tokens"]
    readings = written("TIMESTAMP", cells["TIMESTAMP"], options)
    readings += [whole("isl_tokens", "ContextTokens"), whole("osl_tokens", "GeneratedTokens", least=0)]
    if "NumImages" in cells:
        images = whole("media_items", "NumImages", least=0, most=1_000_000, required=False)
        readings += [images, Reading("multimodal", images.value > 0)]
        notes.append("images are inside ContextTokens")
    return readings, notes


AZURE = Layout(
    "azure",
    "Azure LLM inference trace",
    required=("TIMESTAMP", "ContextTokens", "GeneratedTokens"),
    optional=("NumImages",),
    readings=_readings,
    heeds=("timezone",),
)
