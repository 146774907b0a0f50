"""The sample workspace: what `capsheet init` writes, so that `make plan` runs with nothing configured and no network.

Belongs here: the workspace file, a synthetic trace generator, and published measurements taken as facts
(`observations.csv`, each row with its source). Does not: anything a plan of real traffic would read.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

SEED = 20_260_105
OBSERVATIONS = "observations.csv"


def write_sample_inputs(folder: Path) -> list[Path]:
    """Write `inputs/` into a workspace: two synthetic traces and the published observations; returns what was written.

    Each file appears whole or not at all; writing again gives the same bytes.
    """
    from pipelines.sample.synthetic import ASSISTANT, CHAT, generate_trace

    inputs = folder / "inputs"
    inputs.mkdir(parents=True, exist_ok=True)
    written = []
    for service in (CHAT, ASSISTANT):
        target = inputs / f"{service.name}_trace.parquet"
        partial = target.with_suffix(".partial")
        note = f"synthetic (capsheet's generator, seed {SEED})"
        generate_trace(SEED, service).write_parquet(partial, metadata={"capsheet.note": note})
        partial.replace(target)
        written.append(target)
    target = inputs / OBSERVATIONS
    partial = target.with_suffix(".partial")
    partial.write_bytes(files(__package__ or "pipelines.sample").joinpath(OBSERVATIONS).read_bytes())
    partial.replace(target)
    return [*written, target]
