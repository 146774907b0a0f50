"""`capsheet size`: one model on one GPU under one engine: memory account, bounds, bottleneck, launch command."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from pipelines.commands import show, size_page
from pipelines.planning.account_figures import memory_figures
from pipelines.planning.calculation import Calculation, calculate
from pipelines.planning.catalog import shipped
from pipelines.planning.compatibility import compatibility, refusals
from pipelines.planning.launch import launch_command
from pipelines.planning.least_change import least_change
from pipelines.planning.profile_sources import with_measured
from pipelines.planning.rules_of_thumb import read_coefficients, unusual
from pipelines.planning.sizing import Ask, Sized, accepted_tp, card, engine_of, size
from pipelines.sources.models import exists, read_model
from warehouse.errors import CapsheetError


def run(
    options: dict[str, Any],
    *,
    coefficients: list[str],
    profile: str | None = None,
    offline: bool,
    lang: str,
    explain: bool,
    json: bool,
) -> None:
    """Size what the options name and print it.

    A configuration that does not fit is an answer. A model that is not wholly understood, or a tensor-parallel size
    the engine refuses, is an error for people; machines get the object with its reasons.
    """
    ask = Ask(**options, coefficients=read_coefficients(coefficients))
    folder = model_folder(ask.model)
    found = answer(ask, folder, profile=profile, offline=offline, explain=explain)
    if json:
        show.as_json(found)
        return
    refusal = _refusal(found)
    if refusal:
        raise CapsheetError(refusal)
    size_page.tell(found, lang)


def model_folder(model: str) -> Path:
    """Where a model is looked for and remembered: here for a path or in a workspace, else the user's cache folder."""
    here = Path.cwd()
    if (here / "capsheet.yaml").is_file() or model.startswith((".", "/", "~")) or model.endswith(".json"):
        return here
    if exists(here / model):
        return here
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        return Path(cache).expanduser() / "capsheet"
    except RuntimeError:  # a user without a home, as containers have them
        return Path(tempfile.gettempdir()) / f"capsheet-{os.getuid()}"


def named_revision(model: str, folder: Path) -> tuple[str, str | None]:
    """A hub id and the commit, branch or tag after its `@`; a path may hold an @ of its own."""
    name, at, revision = model.rpartition("@")
    here = model.startswith((".", "/", "~")) or model.endswith(".json") or exists(folder / model)
    return (name, revision) if at and not here else (model, None)


def answer(
    ask: Ask, folder: Path, *, profile: str | None = None, offline: bool = False, explain: bool = False
) -> dict[str, Any]:
    """Everything `size` says, as one object. Raises CapsheetError for what cannot be sized at all."""
    catalog = shipped()
    card(ask.gpu, catalog)  # a wrong GPU or engine is said before any hub is asked
    engine_of(ask.engine, catalog)
    name, revision = named_revision(ask.model, folder)
    sized = size(ask, read_model(name, revision, offline=offline, folder=folder), catalog)
    if profile is not None:
        sized = with_measured(sized, profile)
    calculation = calculate(sized, catalog) if sized.account is not None else Calculation((), (), (), ())
    memory = memory_figures(sized)
    figures = [*memory, *calculation.figures]
    account = sized.account
    row = _row(sized.gpu.gpu_id)
    refused = refusals(sized, row)
    said: dict[str, Any] = {
        **_identity(sized),
        **{figure.name: figure.value for figure in memory},
        "feasible": sized.feasible and not refused,
        "reasons": [*refused, *sized.reasons],
        "least_change": least_change(sized, refused, catalog),
        "warnings": [*sized.warnings, *unusual(calculation.coefficients)],
        "unaccounted": list(sized.unaccounted),
        "labels": {figure.name: figure.label for figure in figures},
        "units": {figure.name: figure.unit for figure in figures},
        "step_profile": {"label": sized.measured.label, "source": sized.measured.source} if sized.measured else None,
        "terms": [
            {name: getattr(term, name) for name in ("term", "value", "unit", "label", "source", "note")}
            for term in (account.terms if account else ())
        ],
        "settings": _settings(sized),
        "assumed": [*sized.assumed, *calculation.assumed],
        "calculator": {figure.name: figure.value for figure in calculation.figures},
        "calculator_missing": calculation.missing,
        "decode_step_by_term_ms": calculation.step_by_term_ms,
        "isl_tokens": calculation.isl_tokens,
        "osl_tokens": calculation.osl_tokens,
        "fleet": list(calculation.fleet),
        "accepted_tp": accepted_tp(sized),
        "compatibility": compatibility(sized, row),
        "launch_command": launch_command(sized, str(row["arch"])) if account else "",
        "coefficients": list(calculation.coefficients),
    }
    if explain:
        said["derivation"] = [figure.derivation() for figure in figures]
    return said


def _identity(sized: Sized) -> dict[str, Any]:
    ask = sized.ask
    return {
        "model": sized.read.model_id,
        "revision": sized.read.revision,
        "source": sized.read.source,
        "checkpoint": sized.read.weights_note,
        "attention": sized.architecture.attention_kind,
        "gpu": sized.gpu.gpu_id,
        "engine": sized.engine,
        "engine_version": sized.version,
        "tp": ask.tp,
        "pp": ask.pp,
        "dp": ask.dp,
        "ep": ask.ep,
        "gpus_per_replica": ask.gpus_per_replica,
        "precision": sized.weights.precision,
        "max_model_len": sized.settings.max_model_len,
    }


def _settings(sized: Sized) -> list[dict[str, Any]]:
    """The engine's settings as resolved; SGLang's own share of memory is the account's, not a flag's."""
    rows = []
    terms = {term.term: term for term in sized.account.terms} if sized.account else {}
    for name, known in sized.settings.provenance.items():
        shown = (getattr(sized.settings, name), *known)
        if name == "gpu_memory_utilization" and "utilization" in terms:
            share = terms["utilization"]
            shown = (share.value, share.label, share.source)
        rows.append(dict(zip(("setting", "value", "label", "source"), (name, *shown), strict=True)))
    return rows


def _row(gpu_id: str) -> dict[str, Any]:
    """The accelerator's row of the catalogue."""
    from warehouse.catalog import read_catalog

    return next(row for row in read_catalog("accelerators").to_dicts() if row["gpu_id"] == gpu_id)


def _refusal(found: dict[str, Any]) -> str:
    """The one line for people where no page of figures would be honest; empty otherwise."""
    if found["unaccounted"]:
        change = f" {found['least_change']}" if found["least_change"] else ""
        return (
            f"{found['model']}: capsheet does not account for all of it ({'; '.join(found['unaccounted'])}), so no "
            f"figure would be right.{change} --json lists what is known."
        )
    if found["tp"] not in found["accepted_tp"]:
        problem = next((reason for reason in found["reasons"] if reason.startswith("TP ")), "")
        if problem:
            sizes = ", ".join(map(str, found["accepted_tp"]))
            return f"--tp {found['tp']}: {found['engine']} refuses it, for {problem}. It accepts {sizes}."
    return ""
