"""The least change that makes a configuration start, where changing one thing of the account is not enough.

Belongs here: trying combinations, cheapest first: a setting left to the engine, more ranks with fewer bits, another
card of the same maker. Does not: single changes (`estimator.memory`), what an engine refuses (`compatibility`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from estimator.engines import resolve_settings
from estimator.hardware import Accelerator
from estimator.memory import MemoryAccount
from estimator.support import supports
from estimator.weights import UnsupportedPrecision, Weights, weights
from pipelines.planning.catalog import Catalog
from pipelines.planning.sizing import Sized, accepted_tp, account_of, overrides

_ALONE = "No single change"
_LARGER = re.compile(r"It fits on a GPU with ([\d.]+) GiB visible\.")
_RANKS = re.compile(r"It fits with tensor parallel (\d+)\.")
_FEWER_BITS = ("fp8", "int4")
_LEFT_TO_THE_ENGINE = ("max_num_batched_tokens", "max_num_seqs")


def least_change(sized: Sized, refused: Sequence[str], catalog: Catalog) -> str:
    """What would make it start, as sentences: the first version that takes it, then memory; empty where it starts."""
    parts = []
    since = next((support.since for support in sized.support if support.accepted is False and support.since), "")
    if since:
        parts.append(f"Use {sized.engine} {since} or later.")
    elif refused:
        parts.append("Choose an engine, a card or a precision that goes with the others.")
    if sized.account is not None and sized.account.least_change:
        parts.append(_of_memory(sized, sized.account.least_change, catalog))
    return " ".join(parts)


def _of_memory(sized: Sized, alone: str, catalog: Catalog) -> str:
    larger = _LARGER.fullmatch(alone)
    if larger is not None:
        named = next((gpu.gpu_id for gpu in _cards(sized, catalog) if _on(sized, gpu, catalog)), None)
        return alone.replace(" visible.", f" visible, such as {named}.") if named else alone
    ranks = _RANKS.fullmatch(alone)
    across = ranks is not None and int(ranks[1]) > sized.gpu.node_gpus
    if not alone.startswith(_ALONE) and not across:
        return alone
    return _nearest(sized, catalog) or _setting(sized, catalog) or _combined(sized, catalog) or alone


def _nearest(sized: Sized, catalog: Catalog) -> str:
    """In place of a size the engine refuses, the nearest one it takes, smaller before larger."""
    accepted = accepted_tp(sized)
    if sized.ask.tp in accepted:
        return ""
    for tp in sorted(accepted, key=lambda size: (size > sized.ask.tp, abs(size - sized.ask.tp))):
        if _account(sized, catalog, tp=tp).feasible:
            return f"It fits with tensor parallel {tp}."
    return ""


def _setting(sized: Sized, catalog: Catalog) -> str:
    """The caller's setting that is in the way."""
    for name in _LEFT_TO_THE_ENGINE:
        if getattr(sized.ask, name) is not None and _without(sized, name, catalog).feasible:
            return f"It fits without --{name.replace('_', '-')}."
    return ""


def _combined(sized: Sized, catalog: Catalog) -> str:
    """Ranks inside a node with fewer bits, else on another card."""
    sizes = [tp for tp in accepted_tp(sized) if tp <= sized.gpu.node_gpus]
    for tp in sizes:
        for precision, found in _smaller(sized, catalog):
            if _account(sized, catalog, tp=tp, found=found).feasible:
                return f"It fits with tensor parallel {tp} in {precision}."
    for tp in sizes:
        for gpu in _cards(sized, catalog):
            if _on(sized, gpu, catalog, tp):
                return f"It fits with tensor parallel {tp} on {gpu.gpu_id}."
    return ""


def _without(sized: Sized, setting: str, catalog: Catalog) -> MemoryAccount:
    """The account with one of the caller's settings left to the engine."""
    asked = {name: value for name, value in overrides(sized.ask).items() if name != setting}
    settings = resolve_settings(sized.engine, sized.version, sized.gpu, sized.architecture, catalog.profile, asked)
    return _account(replace(sized, settings=settings), catalog)


def _account(
    sized: Sized,
    catalog: Catalog,
    *,
    tp: int | None = None,
    found: Weights | None = None,
    gpu: Accelerator | None = None,
) -> MemoryAccount:
    weight, card = found or sized.weights, gpu or sized.gpu
    return account_of(sized.ask, sized.architecture, weight, card, sized.settings, catalog, tp)


def _smaller(sized: Sized, catalog: Catalog) -> Iterator[tuple[str, Weights]]:
    """The model of a 16-bit checkpoint in fewer bits, as far as the engine is not known to refuse them there."""
    if sized.weights.scheme.scheme != "none":
        return
    from warehouse.catalog import read_catalog

    table = read_catalog("support").to_dicts()
    for precision in _FEWER_BITS:
        answers = supports(sized.engine, sized.version, sized.gpu, sized.architecture, precision, table)
        if any(answer.accepted is False for answer in answers):
            continue
        try:
            yield precision, weights(sized.architecture, precision)
        except UnsupportedPrecision:
            continue


def _cards(sized: Sized, catalog: Catalog) -> list[Accelerator]:
    """Accelerators of the same maker that an engine sees more memory of, smallest first."""
    from warehouse.catalog import read_catalog

    makers = dict(read_catalog("accelerators").select("gpu_id", "vendor").iter_rows())
    larger = [
        gpu
        for gpu in catalog.accelerators.values()
        if gpu.visible_memory_gib > sized.gpu.visible_memory_gib and makers[gpu.gpu_id] == makers[sized.gpu.gpu_id]
    ]
    return sorted(larger, key=lambda gpu: (gpu.visible_memory_gib, gpu.gpu_id))


def _on(sized: Sized, gpu: Accelerator, catalog: Catalog, tp: int | None = None) -> bool:
    """Whether it fits on another card, at the settings the engine resolves there."""
    settings = resolve_settings(
        sized.engine, sized.version, gpu, sized.architecture, catalog.profile, overrides(sized.ask)
    )
    return _account(replace(sized, settings=settings), catalog, tp=tp, gpu=gpu).feasible
