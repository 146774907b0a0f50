"""Measured step times read for what the workspace or a command names: the configuration they are of, then the files.

Belongs here: an entry of `profiles`, or a sized configuration, as what a profile was measured on. Does not: formats
(`pipelines.sources.profiles`), or what the times are used for (`profiles`).
"""

from __future__ import annotations

import difflib
from dataclasses import asdict, replace
from pathlib import Path

import polars as pl

from estimator.bounds import decode_step_seconds
from estimator.hardware import resolve_gpu
from estimator.replay import Workload
from estimator.step_time import outside_s
from estimator.weights import UnsupportedPrecision
from pipelines.planning.models import model_of, model_row
from pipelines.planning.profiles import measured_step, profile_for
from pipelines.planning.replaying import Configuration as ReplayOf
from pipelines.planning.sizing import Sized
from pipelines.sources import SourceRead, read_model
from pipelines.sources.profiles import read_profile
from pipelines.workspace import Place, ProfileSpec, WorkspaceError
from warehouse.errors import CapsheetError


def workspace_profiles(place: Place) -> list[SourceRead]:
    """The points of every profile of the workspace, one read a file.

    Raises WorkspaceError for a configuration that cannot be, SourceError for a source that cannot be read.
    """
    found: dict[str, SourceRead] = {}
    for i, spec in enumerate(place.spec.profiles):
        where = place.line_of("profiles", i)
        for read in _reads(place, spec, where):
            if read.source_file in found:
                raise WorkspaceError(f"{where}: another profile names {read.source_file} too. Name each file once.")
            found[read.source_file] = read
    return list(found.values())


def _reads(place: Place, spec: ProfileSpec, where: str) -> list[SourceRead]:
    from warehouse.catalog import read_catalog

    known = read_catalog("accelerators")["gpu_id"].to_list()
    gpu_id = resolve_gpu(spec.accelerator, known)
    if gpu_id is None:
        near = ", ".join(difflib.get_close_matches(spec.accelerator, known, n=3, cutoff=0.4)) or "none"
        raise WorkspaceError(f"{where}: the catalogue has no accelerator {spec.accelerator[:40]!r}. Near it: {near}.")
    revision = next(service.revision for service in place.spec.services if service.model == spec.model)
    model = read_model(spec.model, revision, offline=place.spec.offline, folder=place.folder)
    try:
        served = model_of(model_row(model))
        precision = served.weights(spec.precision).precision
    except UnsupportedPrecision as error:
        raise WorkspaceError(f"{where}: {error}") from None
    of = {
        "model_id": model.model_id,
        "gpu_id": gpu_id,
        "engine": spec.engine,
        "engine_version": spec.version,
        "tp": spec.tensor_parallel,
        "dp": spec.data_parallel,
        "ep": spec.expert_parallel,
        "precision": precision,
    }
    return read_profile(
        place.folder,
        spec.source,
        of,
        format=spec.format,
        label=spec.label,
        options=spec.options,
        config=model.config,
        longest=served.architecture.max_position_tokens,
        max_rejected_share=place.spec.max_rejected_share,
    )


def with_measured(sized: Sized, source: str) -> Sized:
    """A sized configuration with the step times that a file, folder or `aiconfigurator` has of it.

    Raises SourceError for a source that cannot be read.
    """
    wanted = sized.configuration
    reads = read_profile(Path(), source, asdict(wanted), config=sized.read.config, longest=sized.settings.max_model_len)
    rows = pl.concat([read.frame for read in reads]).to_dicts()
    found = profile_for(rows, wanted)
    if found is None:
        raise CapsheetError(f"--profile {source} holds no point. Name another.")
    return replace(sized, measured=found)


def measured_configuration(made: ReplayOf, sized: Sized, load: Workload) -> ReplayOf:
    """What a replay takes, with a sized configuration's measured step times before physics.

    Raises CapsheetError for a profile another configuration must have made.
    """
    if sized.measured is None:
        return made
    coefficients = {**made.coefficients, **sized.ask.coefficients}
    step = measured_step(made.step, sized.measured, coefficients, made.limits.max_num_batched_tokens)
    isl, osl = float(load.isl_tokens.mean()), float(load.osl_tokens.mean())
    request_s = outside_s(coefficients, isl, decode_step_seconds(step, 1.0, isl + osl / 2))
    return replace(made, step=step, request_s=request_s)
