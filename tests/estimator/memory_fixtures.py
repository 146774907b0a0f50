"""The catalogue as the memory tests read it: accelerators, the engine profile, models."""

from __future__ import annotations

import csv
import json
from functools import cache
from pathlib import Path

from estimator.architecture import Architecture
from estimator.configs import parse_config
from estimator.engines import resolve_settings
from estimator.hardware import Accelerator
from estimator.memory import MemoryAccount, memory_account
from estimator.weights import weights

CATALOG = Path(__file__).resolve().parents[2] / "warehouse" / "catalog"


@cache
def profile() -> tuple[dict[str, str], ...]:
    with (CATALOG / "engines.csv").open(newline="", encoding="utf-8") as file:
        return tuple(csv.DictReader(file))


@cache
def accelerators() -> dict[str, Accelerator]:
    def number(text: str) -> float | None:
        return float(text) if text else None

    with (CATALOG / "accelerators.csv").open(newline="", encoding="utf-8") as file:
        return {
            row["gpu_id"]: Accelerator(
                row["gpu_id"],
                float(row["visible_memory_gib"]),
                number(row["memory_bandwidth_gbs"]) or 1.0,
                number(row["fp16_dense_tflops"]) or 1.0,
            )
            for row in csv.DictReader(file)
            if row["visible_memory_gib"]
        }


@cache
def model(model_id: str) -> Architecture:
    file = CATALOG / "models" / f"{model_id.replace('/', '--')}.json"
    return parse_config(json.loads(file.read_text(encoding="utf-8")), model_id)


def account(
    model_id: str,
    gpu: str | Accelerator = "H100-SXM",
    engine: str = "vllm",
    version: str = "0.19.0",
    tp: int = 1,
    pp: int = 1,
    precision: str = "auto",
    safety_gib: float = 0.0,
    **overrides: object,
) -> MemoryAccount:
    accelerator = accelerators()[gpu] if isinstance(gpu, str) else gpu
    architecture = model(model_id)
    settings = resolve_settings(engine, version, accelerator, architecture, profile(), overrides)
    return memory_account(
        architecture,
        weights(architecture, precision),
        accelerator,
        settings,
        tp,
        pp,
        profile=profile(),
        safety_gib=safety_gib,
    )
