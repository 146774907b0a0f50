"""A few coefficients of a step, corrected by what was measured on one deployment at low load.

Belongs here: the correction, its bounds, and its fit through the replay. Does not: which coefficients hold in general
(`estimator.step_time`), or the measurements.

Three numbers: a factor on what decoding costs (weights and KV read, layers, sequences, the step itself), one on work
per prompt token and the launch of a step with a prompt, and seconds a request spends outside the engine. Stages of low
load tell no more apart: left free, the split between cost per step and per sequence follows noise and extrapolates
badly. So each is drawn towards the coefficient it corrects by as much as deployments of one engine, accelerator and
precision are taken to differ, and none leaves its bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares

from estimator.replay.limits import EngineLimits
from estimator.replay.simulate import replay
from estimator.replay.workload import Floats, Workload
from estimator.step_time import STEP_FIELDS

_DECODE = (
    "step_overhead_s",
    "layer_overhead_s",
    "moe_layer_overhead_s",
    "dense_read_s",
    "head_read_s",
    "expert_read_s",
    "sequence_overhead_s_per_sequence",
    "head_flops_s_per_sequence",
    "kv_full_s_per_token",
    "kv_window_s_per_token",
    "state_s_per_sequence",
)
_PROMPTS = (
    "dense_flops_s_per_token",
    "expert_flops_s_per_token",
    "prefill_host_s",
    "attention_full_s_per_pair",
    "attention_window_s_per_pair",
)

LEAST, MOST = (0.7, 0.4), (1.5, 2.5)
"""What the two factors may be."""
SPREAD = (0.05, 0.25)
"""How far the factors of other deployments lie from 1 (standard deviation, assumed)."""
REQUEST_SPREAD_S, MOST_REQUEST_S = 0.02, 0.5
TTFT_SPREAD, TPOT_SPREAD = 0.04, 0.03
"""Relative errors of what is measured that a fit need not follow; repeats of a configuration differ by 4 % in TTFT."""


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """One measured stage: what was sent, the median TTFT, and the mean TPOT as (E2E - TTFT) / (tokens - 1) of means."""

    workload: Workload
    ttft_p50_s: float
    tpot_mean_s: float


@dataclass(frozen=True, slots=True)
class Correction:
    """Factors on decoding and on prompt work, and seconds outside the engine."""

    decode: float
    prompts: float
    request_seconds: float

    def apply(self, step: Floats) -> Floats:
        """The corrected step parameters."""
        corrected = step.copy()
        for factor, fields in ((self.decode, _DECODE), (self.prompts, _PROMPTS)):
            for name in fields:
                corrected[STEP_FIELDS.index(name)] *= factor
        return corrected


def seen(workload: Workload, step: Floats, limits: EngineLimits, request_seconds: float) -> tuple[float, float]:
    """Median TTFT and mean TPOT of a replay, as a `Stage` has them."""
    result = replay(workload, step, limits, request_seconds=request_seconds)
    tokens = float(result.osl_tokens.mean())
    tpot = float(result.e2e_s.mean() - result.ttft_s.mean()) / max(tokens - 1, 1e-9)
    return float(np.median(result.ttft_s)), tpot


def fit_correction(stages: Sequence[Stage], step: Floats, limits: EngineLimits, request_seconds: float) -> Correction:
    """The correction under which a replay of `stages` sees what was measured, as nearly as bounds and spreads let it.

    Robust least squares on the logarithms. Stages should be below saturation: there a queue, not the step, decides.
    Raises ValueError without stages.
    """
    if not stages:
        raise ValueError("a correction needs at least one measured stage")

    usual = np.asarray([1.0, 1.0, min(request_seconds, MOST_REQUEST_S)])
    spread = np.asarray([*SPREAD, REQUEST_SPREAD_S])

    def residuals(x: Floats) -> Floats:
        correction = Correction(*(float(v) for v in x))
        off = []
        for stage in stages:
            ttft, tpot = seen(stage.workload, correction.apply(step), limits, correction.request_seconds)
            off += [np.log(ttft / stage.ttft_p50_s), np.log(tpot / stage.tpot_mean_s)]
        return np.append(np.asarray(off) / np.tile((TTFT_SPREAD, TPOT_SPREAD), len(stages)), (x - usual) / spread)

    found = least_squares(
        residuals,
        usual,
        bounds=((*LEAST, 0.0), (*MOST, MOST_REQUEST_S)),
        x_scale=spread,
        loss="soft_l1",
        # A replay's times move in steps: differences must be wider than these.
        diff_step=(0.01, 0.01, 0.01),
        max_nfev=60,
    )
    return Correction(*(float(v) for v in found.x))
