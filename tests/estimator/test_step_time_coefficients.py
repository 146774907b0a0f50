"""Coefficients are chosen by how narrowly a row holds, and say where they came from."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from estimator.step_time import COEFFICIENT_UNITS, coefficients_for, gpu_family

CATALOG = Path(__file__).resolve().parents[2] / "warehouse" / "catalog" / "coefficients.csv"


def row(parameter: str, value: float, **where: object) -> dict[str, object]:
    known = {
        "engine": "vllm",
        "version_from": "0.0",
        "version_before": None,
        "gpu_scope": "*",
        "unit": "x",
        "usual_low": None,
        "usual_high": 3,
        "label": "estimated",
        "source": "a run",
        "meaning": "",
    }
    return {**known, "parameter": parameter, "value": value, **where}


BASE = [row(name, 2.0, unit=unit) for name, unit in COEFFICIENT_UNITS.items()]
READ = "dense_read_factor"


def read_factor(
    *rows: dict[str, object], version: str = "0.15.1", gpu_id: str = "H100-SXM", precision: str = "bf16"
) -> float:
    return coefficients_for([*BASE, *rows], "vLLM", version, gpu_id, precision)[READ]


def test_an_accelerator_beats_its_family_and_a_family_beats_all() -> None:
    family, own = row(READ, 1.3, gpu_scope="Hopper"), row(READ, 1.1, gpu_scope="H100-SXM")
    assert read_factor(own, family) == 1.1
    assert read_factor(own, family, gpu_id="H200-SXM") == 1.3
    assert read_factor(own, family, gpu_id="B200-SXM") == 2.0


def test_a_precision_beats_all_precisions_at_the_same_scope_only() -> None:
    fp8, family = row(f"{READ}@fp8", 1.4), row(READ, 1.3, gpu_scope="Hopper")
    assert read_factor(fp8, precision="fp8") == 1.4
    assert read_factor(fp8) == 2.0
    assert read_factor(fp8, family, precision="fp8") == 1.3


def test_a_row_holds_from_its_first_version_to_before_its_last() -> None:
    old, new = row(READ, 1.5, version_from="0.8", version_before="0.12"), row(READ, 1.2, version_from="0.12")
    assert read_factor(old, new, version="0.11.0") == 1.5
    assert read_factor(old, new, version="0.12") == 1.2
    assert read_factor(old, new, version="v0.15.1.post1") == 1.2
    assert read_factor(old, new, version="") == 1.2


def test_the_latest_of_two_ranges_that_hold_wins() -> None:
    assert read_factor(row(READ, 1.5, version_from="0.9"), row(READ, 1.2, version_from="0.10")) == 1.2


def test_a_choice_keeps_its_label_source_and_usual_range() -> None:
    chosen = coefficients_for([*BASE, row(READ, 1.1, label="measured", source="log")], "vllm", "1", "L4", "bf16")
    assert chosen.chosen[READ].label == "estimated"
    chosen = coefficients_for(
        [*BASE, row(READ, 1.1, label="measured", source="log", gpu_scope="L4")], "vllm", "1", "L4", "bf16"
    )
    assert (chosen.chosen[READ].label, chosen.chosen[READ].source) == ("measured", "log")
    assert (chosen.chosen[READ].usual_low, chosen.chosen[READ].usual_high) == (None, 3.0)


def test_an_unknown_engine_is_told_which_engines_have_coefficients() -> None:
    with pytest.raises(ValueError, match=r"engine 'tgi'.*engines with coefficients: vllm"):
        coefficients_for(BASE, "tgi", "1", "H100-SXM", "bf16")


def test_a_row_that_beats_the_datasheet_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1 x"):
        read_factor(row(READ, 0.5, gpu_scope="H100-SXM"))


def test_other_parameters_of_the_profile_are_passed_over() -> None:
    assert read_factor(row("max_num_seqs", 256)) == 2.0


@pytest.mark.parametrize(
    ("gpu_id", "family"),
    [
        ("H100-SXM", "Hopper"),
        ("GH200-144GB", "Hopper"),
        ("A100-80GB-PCIe", "Ampere"),
        ("L40S", "Ada"),
        ("RTX-4090", "Ada"),
        ("GB200", "Blackwell"),
        ("RTX-PRO-6000-Blackwell-Server", "Blackwell"),
        ("MI300X", "CDNA"),
        ("Trainium2", None),
        ("T4", None),
    ],
)
def test_an_accelerator_belongs_to_its_generation(gpu_id: str, family: str | None) -> None:
    assert gpu_family(gpu_id) == family


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm"])
@pytest.mark.parametrize("version", ["", "0.11.0", "0.15.1", "1.2"])
def test_the_catalogue_has_every_coefficient_of_every_engine_inside_its_usual_range(engine: str, version: str) -> None:
    with CATALOG.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    for precision in ("bf16", "fp8"):
        for name, chosen in coefficients_for(rows, engine, version, "L40S", precision).chosen.items():
            assert chosen.unit == COEFFICIENT_UNITS[name]
            assert chosen.usual_low is not None
            assert chosen.usual_high is not None
            assert chosen.usual_low <= chosen.value <= chosen.usual_high
            assert chosen.source
            assert chosen.meaning
