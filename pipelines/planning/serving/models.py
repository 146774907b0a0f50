"""A served model by its name and the precision a file gives it.

Belongs here: finding the config, and which weights a label of a precision stands for. Does not: sizing weights
(`estimator.weights`), where configs lie (`pipelines.sources.model_names`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from estimator.architecture import Architecture
from estimator.configs import UnsupportedConfig, parse_config
from estimator.weights import SAME, SCHEMES, Weights, weights
from pipelines.planning.serving.cells import Unreadable
from pipelines.sources.base import SourceError, shown
from pipelines.sources.model_names import ModelFolders

KEYS = {"nvfp4": "fp4", "mxfp4": "fp4", "fp16": "bf16", "fp32": "bf16"}
"""Schemes that share the coefficients of another name."""
_IN_NAME = re.compile(r"[-_.](nvfp4|mxfp4|fp8|int4|awq|gptq|w4a16|int8|w8a8)(?=$|[-_.])", re.IGNORECASE)
_LABELS = {"auto": "", "none": "", "unquantized": "", "float8": "fp8", "float4": "nvfp4", "w4a4": "nvfp4"}
"""Labels of a precision that `estimator.weights` does not know; the checkpoint's own is an empty one."""
_SHAPES = {"llama-4-scout": "Llama-4-Scout-17B-16E-Instruct", "llama-4-maverick": "Llama-4-Maverick-17B-128E-Instruct"}
"""Names cut short of the only model that has them."""
_SPELLINGS: tuple[Callable[[str], str], ...] = (
    lambda name: _SHAPES.get(name.lower(), name),
    lambda name: f"{name}-Instruct",
    lambda name: f"Meta-{name}",
    lambda name: f"Meta-{re.sub('-Instruct$', '', name, flags=re.IGNORECASE)}",
    lambda name: re.sub("-Instruct$", "", name, flags=re.IGNORECASE),
)
"""Other names of one shape: a base model and its tuned release, and Meta's older prefix."""
_DRAFTED = re.compile(r"\b(eagle\d*|mtp|medusa|speculative|draft)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Served:
    """A model as it is served. `precision` is the key of coefficients: bf16, fp8, fp4, int4 or int8."""

    architecture: Architecture
    weights: Weights
    precision: str
    notes: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """dense, MoE or MLA: what sets the cost of a step apart."""
        layers = self.architecture.layers
        if any(layer.attention.kind == "mla" for layer in layers):
            return "MLA"
        return "MoE" if any(layer.feed_forward.experts for layer in layers) else "dense"


@dataclass(slots=True)
class Models:
    """Models by name and precision, each looked up once."""

    folders: ModelFolders
    _seen: dict[tuple[str, str], Served | str] = field(default_factory=dict)

    def served(self, name: str, label: str) -> Served:
        """The model under a label of a precision; raises Unreadable with the reason."""
        key = (name, label.lower())
        if key not in self._seen:
            try:
                self._seen[key] = self._look_up(*key)
            except (UnsupportedConfig, SourceError, ValueError) as error:
                self._seen[key] = " ".join(str(error).split())[:200]
        found = self._seen[key]
        if isinstance(found, str):
            raise Unreadable(found)
        return found

    def _look_up(self, name: str, label: str) -> Served:
        if _DRAFTED.search(name):
            raise Unreadable("speculative decoding: the share of drafts that were accepted is not recorded")
        found, notes = self.folders.find(name), []
        for spelling in _SPELLINGS if found is None else ():
            model = spelling(name.rpartition("/")[2])
            if (found := self.folders.find(model)) is not None:
                notes = [f"config of {model}, of the same shape"]
                break
        if found is None:
            raise Unreadable(f"no config of {shown(name, 60)} in --models, the catalogue or the hub cache")
        architecture = parse_config(found.config, name)
        notes += [f"config of {found.instead}"] if found.instead else []
        precision, why = _precision(architecture, name if found.instead else "", label)
        notes += [why] if why else []
        sized = weights(architecture, precision)
        return Served(architecture, sized, KEYS.get(sized.precision, sized.precision), tuple(notes))


def _precision(architecture: Architecture, copied_as: str, label: str) -> tuple[str, str]:
    """The precision of `weights` that a label stands for, and what that assumes.

    MXFP4 checkpoints (gpt-oss) are served as they are whatever the label: their experts exist in no other type. An
    empty label is what the name of the copy says, else the checkpoint's own type, which for a config that declares no
    quantisation is 16 bits.
    """
    if architecture.scheme.scheme == "mxfp4":
        return "auto", "MXFP4 experts and BF16 attention whatever the label"
    text = label.split("/", maxsplit=1)[0].strip().removesuffix("_block").removesuffix("_wo")
    text = re.sub(r"^(float\d|fp8)_?e\dm\d.*", r"\1", text)
    text = _LABELS.get(text, text)
    in_name = _IN_NAME.findall(copied_as)
    if not text:
        return (in_name[-1].lower(), "precision from the model's name") if in_name else ("auto", "precision not stated")
    precision = SAME.get(text, text)
    if precision not in SCHEMES:
        raise Unreadable(f"precision {shown(label, 40)} is not one of {', '.join(sorted(SCHEMES))}")
    return precision, ""
