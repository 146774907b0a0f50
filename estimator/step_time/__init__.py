"""How long one engine step takes: physics x coefficients.

Belongs here: the compiled step (`kernel`), its parameters from model and accelerator (`physics`), the choice of
coefficients (`coefficients`) and measured times that go before both (`profiles`). Does not: fitting coefficients,
replaying steps, or reading the catalogue.
"""

from estimator.step_time.coefficients import (
    ADJUSTMENT,
    CLOSED,
    COEFFICIENT_UNITS,
    OPEN,
    SHARPNESS,
    Coefficient,
    Coefficients,
    adjusted,
    coefficients_for,
    gpu_family,
    measured_on,
    model_kind,
    outside_s,
)
from estimator.step_time.kernel import (
    MEASURED_TERM,
    STEP_FIELDS,
    STEP_TERMS,
    WINDOW_INDEX,
    step_seconds,
    step_terms,
)
from estimator.step_time.physics import one_way_link_bytes_per_s, step_parameters
from estimator.step_time.profiles import Carried, DecodePoint, PrefillPoint, Profile, carried, is_whole, with_profile

__all__ = [
    "ADJUSTMENT",
    "CLOSED",
    "COEFFICIENT_UNITS",
    "MEASURED_TERM",
    "OPEN",
    "SHARPNESS",
    "STEP_FIELDS",
    "STEP_TERMS",
    "WINDOW_INDEX",
    "Carried",
    "Coefficient",
    "Coefficients",
    "DecodePoint",
    "PrefillPoint",
    "Profile",
    "adjusted",
    "carried",
    "coefficients_for",
    "gpu_family",
    "is_whole",
    "measured_on",
    "model_kind",
    "one_way_link_bytes_per_s",
    "outside_s",
    "step_parameters",
    "step_seconds",
    "step_terms",
    "with_profile",
]
