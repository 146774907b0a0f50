"""The catalogue of accelerators: dense rates only, memory as CUDA reports it, every figure with its source."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from tests.estimator.memory_fixtures import CATALOG

RENAMED = {"GB200 (per GPU)": "GB200", "GB300 (per GPU)": "GB300"}
COLUMNS = {
    "memory_gb": "memory_gb",
    "mem_bw_gbs": "memory_bandwidth_gbs",
    "fp16_dense_tflops": "fp16_dense_tflops",
    "fp8_dense_tflops": "fp8_dense_tflops",
    "int8_dense_tops": "int8_dense_tops",
    "fp4_dense_tflops": "fp4_dense_tflops",
    "interconnect_gbs_bidir_per_gpu": "interconnect_gbs",
    "pcie_gen": "pcie_gen",
    "tdp_w": "tdp_w",
}


@pytest.fixture(scope="module")
def rows() -> dict[str, dict[str, str]]:
    with (CATALOG / "accelerators.csv").open(newline="", encoding="utf-8") as lines:
        return {row["gpu_id"]: row for row in csv.DictReader(lines)}


@pytest.mark.parametrize(
    ("gpu_id", "column", "dense", "trap"),
    [
        ("L40S", "fp8_dense_tflops", 733, "1466 is with sparsity"),
        ("L4", "fp8_dense_tflops", 242, "485 is with sparsity"),
        ("L4", "fp16_dense_tflops", 121, "242 is with sparsity"),
        ("H100-NVL", "fp16_dense_tflops", 835, "1671 is FP8 dense, 1979 a pair or another board"),
        ("H100-SXM", "fp16_dense_tflops", 989, "1979 is with sparsity"),
        ("H100-SXM", "fp8_dense_tflops", 1979, "3958 is with sparsity"),
        ("H100-PCIe", "fp16_dense_tflops", 756.5, "1513 is with sparsity"),
        ("H200-SXM", "fp16_dense_tflops", 989, "2.0e15 is with sparsity"),
        ("A100-80GB-SXM", "fp16_dense_tflops", 312, "624 is with sparsity"),
        ("A100-80GB-SXM", "int8_dense_tops", 624, "1248 is with sparsity"),
        ("RTX-4090", "fp8_dense_tflops", 330.3, "660.6 accumulates in FP16"),
        ("RTX-4090", "fp16_dense_tflops", 165.2, "82.6 is without tensor cores"),
        ("A40", "fp16_dense_tflops", 150, "37.4 is without tensor cores"),
        ("B200-SXM", "fp8_dense_tflops", 4500, "9000 is FP4 dense, or FP8 with sparsity"),
        ("B200-SXM", "fp4_dense_tflops", 9000, "18000 is with sparsity"),
        ("B300-SXM", "int8_dense_tops", 153.5, "INT8 is 30 times slower than FP8 here"),
        ("MI300X", "fp16_dense_tflops", 1307, "2615 is with sparsity, or FP8"),
        ("Gaudi3", "fp8_dense_tflops", 1835, "as fast as BF16, not twice"),
    ],
)
def test_a_rate_is_the_dense_one(
    rows: dict[str, dict[str, str]], gpu_id: str, column: str, dense: float, trap: str
) -> None:
    assert float(rows[gpu_id][column]) == dense, trap


def test_rates_without_a_source_are_blank_not_guessed(rows: dict[str, dict[str, str]]) -> None:
    assert rows["A10G"]["fp16_dense_tflops"] == ""  # two sources copy the A10's datasheet
    assert rows["L20"]["fp16_dense_tflops"] == ""
    assert rows["T4"]["fp8_dense_tflops"] == ""
    assert rows["Ascend-910C"]["memory_gb"] == ""


@pytest.mark.parametrize(
    ("gpu_id", "visible_gib"),
    [
        ("H100-SXM", 79.19),
        ("A100-80GB-SXM", 79.25),
        ("B200-SXM", 178.35),
        ("L40S", 44.42),
        ("H200-SXM", 139.8),
        ("RTX-5090", 31.37),
        ("RTX-PRO-6000-Blackwell-Server", 94.97),
    ],
)
def test_visible_memory_is_what_cuda_reports_not_the_label_nor_nvidia_smi(
    rows: dict[str, dict[str, str]], gpu_id: str, visible_gib: float
) -> None:
    assert float(rows[gpu_id]["visible_memory_gib"]) == visible_gib
    assert "visible memory" in rows[gpu_id]["note"]


def test_visible_memory_is_a_plausible_share_of_the_label(rows: dict[str, dict[str, str]]) -> None:
    for row in rows.values():
        if row["memory_gb"] and row["visible_memory_gib"]:
            # From a label in 10^9 bytes less the driver's part, to a label that means GiB.
            assert 0.89 <= float(row["visible_memory_gib"]) / float(row["memory_gb"]) <= 1.0, row["gpu_id"]
            assert row["visible_memory_label"] in {"verified", "measured", "cited", "inferred", "estimated", "assumed"}


def test_lower_precision_is_never_slower_but_where_the_note_says_so(rows: dict[str, dict[str, str]]) -> None:
    for gpu_id, row in rows.items():
        rates = [row[name] for name in ("fp16_dense_tflops", "fp8_dense_tflops", "fp4_dense_tflops") if row[name]]
        assert rates == sorted(rates, key=float), gpu_id
        if row["int8_dense_tops"] and row["fp16_dense_tflops"]:
            slow = float(row["int8_dense_tops"]) < float(row["fp16_dense_tflops"])
            assert not slow or "INT8" in row["note"], gpu_id


def test_sources_are_spelled_out_and_conflicts_are_kept(rows: dict[str, dict[str, str]]) -> None:
    assert len(rows) >= 58
    for gpu_id, row in rows.items():
        assert len(row["source"]) > 12, gpu_id
        assert not re.search(r"(?<![\w.])(?:W\d+|PL|TT|AO|SKY)(?![\w-])", f"{row['source']} {row['note']}"), gpu_id
    assert sum("CONFLICT" in row["note"] for row in rows.values()) >= 10


def test_the_size_of_a_node_is_named_with_what_it_was_read_from(rows: dict[str, dict[str, str]]) -> None:
    sizes = {gpu_id: row["node_gpus"] for gpu_id, row in rows.items()}
    assert (sizes["H100-SXM"], sizes["GB200"], sizes["Trainium1"], sizes["TPU-v5p"]) == ("8", "72", "16", "4")
    assert sizes["K100-AI"] == ""  # no source
    for gpu_id, size in sizes.items():
        assert bool(size) == ("node: " in rows[gpu_id]["source"]), gpu_id


def test_the_catalogue_repeats_the_given_figures(rows: dict[str, dict[str, str]], shared: Path) -> None:
    with (shared / "data" / "catalog" / "gpus.csv").open(newline="", encoding="utf-8") as lines:
        given = list(csv.DictReader(lines))
    for row in given:
        ours = rows[RENAMED.get(row["gpu_id"], row["gpu_id"])]
        for theirs, column in COLUMNS.items():
            assert ours[column] == row[theirs], (row["gpu_id"], column)
