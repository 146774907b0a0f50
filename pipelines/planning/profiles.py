"""Which measured step times hold for a configuration, put before physics, and said beside every figure.

Belongs here: rows of `step_profile` into estimator types, matching them to what is planned or sized, telling which of
the two a figure rests on. Does not: reading files (`pipelines.sources.profiles`), interpolation
(`estimator.step_time`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from estimator.hardware import Accelerator
from estimator.step_time import (
    DecodePoint,
    PrefillPoint,
    Profile,
    carried,
    outside_s,
    with_profile,
)
from estimator.versions import version_key
from estimator.workload import Floats
from pipelines.planning.figures import Figure
from warehouse.errors import CapsheetError
from warehouse.registry import LABELS

Rows = Iterable[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Configuration:
    """What a step's time depends on, as `step_profile` has it."""

    model_id: str
    gpu_id: str
    engine: str
    engine_version: str
    tp: int
    precision: str
    dp: int = 1
    ep: int = 1

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Configuration:
        """The configuration of a row."""
        return cls(**{name: row[name] for name in cls.__dataclass_fields__})

    def is_as(self, other: Configuration) -> bool:
        """Whether the other is the same, however its version is written."""
        same_version = _plain(self.engine_version) == _plain(other.engine_version)
        return same_version and replace(self, engine_version="") == replace(other, engine_version="")

    def differs_from(self, other: Configuration) -> list[str]:
        """Names of what is not the same."""
        names = [name for name in self.__dataclass_fields__ if name != "engine_version"]
        unlike = [name for name in names if getattr(self, name) != getattr(other, name)]
        same = _plain(self.engine_version) == _plain(other.engine_version)
        return unlike if same else [*unlike, "engine_version"]

    def __str__(self) -> str:
        """For people."""
        ranks = f"TP{self.tp}" + (f" DP{self.dp}" if self.dp > 1 else "") + (f" EP{self.ep}" if self.ep > 1 else "")
        return f"{self.model_id} on {self.gpu_id} / {ranks} / {self.precision} / {self.engine}@{self.engine_version}"


def _plain(version: str) -> tuple[int, ...]:
    """A version without trailing zeros: 0.19 and 0.19.0 are one."""
    key = list(version_key(version))
    while key and key[-1] == 0:
        key.pop()
    return tuple(key)


def profile_for(rows: Rows, wanted: Configuration) -> Profile | None:
    """The profile of a configuration: of each phase the best known points; None where nobody has any.

    Points of several sources that are known alike count together.
    """
    found = [row for row in rows if Configuration.of(row).is_as(wanted)]
    used: list[Mapping[str, Any]] = []
    for phase in ("decode", "prefill"):
        points = [row for row in found if row["phase"] == phase]
        best = min((LABELS.index(row["label"]) for row in points), default=0)
        used += [row for row in points if LABELS.index(row["label"]) == best]
    if not used:
        return None
    decode = tuple(
        DecodePoint(row["sequences"], row["context_tokens"], row["time_ms"] / 1e3, row["span_tokens"] or 0.0)
        for row in used
        if row["phase"] == "decode"
    )
    prompts = tuple(
        PrefillPoint(row["prompt_tokens"], row["time_ms"] / 1e3, row["seen_from"] == "client")
        for row in used
        if row["phase"] == "prefill"
    )
    sources = sorted({row["source"] for row in used})
    named = ", ".join(sources[:3]) + (f" and {len(sources) - 3} more" if len(sources) > 3 else "")
    return Profile(decode, prompts, max((row["label"] for row in used), key=LABELS.index), named)


def measured_step(
    step: Floats, profile: Profile | None, coefficients: Mapping[str, float], max_num_batched_tokens: int
) -> Floats:
    """The parameters of a step with a profile before physics; as they are without one.

    What a client's first tokens hold beside the engine's steps is taken off as the coefficients have it, because the
    replay adds it to every request. Raises CapsheetError for a profile another configuration must have made.
    """
    if profile is None:
        return step
    try:
        return with_profile(
            step,
            profile,
            max_num_batched_tokens=max_num_batched_tokens,
            outside_s=lambda tokens, step_s: outside_s(coefficients, tokens, step_s),
        )
    except ValueError as error:
        raise CapsheetError(f"profile {error}. Mend what it says it was measured on, or leave it out.") from None


def told(step: Floats, profile: Profile | None, gpu: Accelerator, *, fitted: bool) -> str:
    """What a configuration's step times rest on, in a line."""
    held = carried(step)
    if profile is None or held is None:
        where = f"measurements on {gpu.gpu_id}" if fitted else f"{gpu.gpu_id}'s datasheet and its nearest relatives"
        return f"physics x coefficients, from {where}"
    return f"{profile.label} by {profile.source}: {held}; physics elsewhere"


PHYSICS = "step model"
"""Source of what physics x coefficients give."""


def rests_on(step: Floats, profile: Profile | None, isl: float, osl: float) -> tuple[tuple[str, str], tuple[str, str]]:
    """(label, source) of a mean prompt alone, and of the decode steps of a mean request alone."""
    held = carried(step)
    if profile is None or held is None:
        return ("estimated", PHYSICS), ("estimated", PHYSICS)
    measured, physics = (profile.label, profile.source), ("estimated", _outside(profile))
    decodes = held.decodes(1.0, isl + osl / 2)
    return measured if held.prompts(isl) else physics, measured if decodes else physics


def _outside(profile: Profile) -> str:
    return f"{PHYSICS}: physics, outside of {profile.source}"


DECODE_FIGURES = ("decode_step_ms", "decode_tokens_per_s_per_user", "decode_tokens_per_s_per_replica")
PROMPT_FIGURES = ("prefill_ms", "zero_load_ttft_ms", "prefill_tokens_per_s_per_replica")


def attributed(
    figures: Sequence[Figure], step: Floats, profile: Profile | None, *, batch: float, context: float, isl: float
) -> list[Figure]:
    """Figures of the step model, each with what it rests on: a profile where its step is inside, else physics.

    Those inside are labelled as the profile is; what mixes several steps stays estimated.
    """
    held = carried(step)
    if profile is None or held is None:
        return list(figures)
    inside = {name: held.decodes(batch, context) for name in DECODE_FIGURES}
    inside |= {name: held.prompts(isl) for name in PROMPT_FIGURES}
    named = []
    for figure in figures:
        if figure.name not in inside:
            mixed = f"{figure.source}; {profile.source} where it was measured, physics elsewhere"
            named.append(replace(figure, source=mixed) if figure.source == PHYSICS else figure)
        elif inside[figure.name]:
            named.append(replace(figure, label=profile.label, source=profile.source))
        else:
            named.append(replace(figure, source=_outside(profile)))
    return named


def unused(rows: Rows, considered: Iterable[Configuration]) -> list[tuple[str, int, str]]:
    """Each profile's configuration, how many of those considered are it, and what is unlike in the nearest if none is.

    A profile that nobody's plan rests on is most often one whose configuration is written otherwise.
    """
    several = list(dict.fromkeys(considered))
    found = []
    for one in dict.fromkeys((row["profile"], Configuration.of(row)) for row in rows):
        profile, measured = one
        uses = sum(measured.is_as(candidate) for candidate in several)
        unlike = min((measured.differs_from(candidate) for candidate in several), key=len, default=[])
        found.append((f"{profile}: {measured}", uses, ", ".join(unlike)))
    return found
