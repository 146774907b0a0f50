"""Rows of serving files for tests, in the shapes such files have."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

from pipelines.planning.catalog import shipped
from pipelines.planning.serving import ServingRow, read_cases
from pipelines.sources.model_names import ModelFolders

FOLDERS, CATALOG = ModelFolders(), shipped()

CLOSED = {
    "id": "a", "model": "meta-llama/Llama-3.1-70B", "gpu": "h100_sxm", "engine": "vllm", "engine_version": "0.15.1",
    "precision": "fp8", "gemm_quant": "fp8", "moe_quant": "", "mode": "agg", "tp_size": "4.0", "pp_size": "1.0",
    "attention_dp_size": "1.0", "moe_tp_size": "4.0", "moe_ep_size": "1.0", "batch_size": "16.0",
    "prefill_batch_size": "", "prefill_num_workers": "", "prefill_tp_size": "", "prefill_pp_size": "",
    "prefill_attention_dp_size": "", "prefill_moe_tp_size": "", "prefill_moe_ep_size": "", "decode_batch_size": "",
    "decode_num_workers": "", "decode_tp_size": "", "decode_pp_size": "", "decode_attention_dp_size": "",
    "decode_moe_tp_size": "", "decode_moe_ep_size": "", "concurrency": "16.0", "isl": "1024", "osl": "1024",
    "ttft_ms": "150.0", "tpot_ms": "14.0", "provenance": "csv dump: 2026-04-06.csv",
}  # fmt: skip
MOE = {**CLOSED, "model": "deepseek-ai/DeepSeek-R1", "gpu": "b200_sxm", "engine": "sglang", "engine_version": "0.5.9"}
OPEN = {
    "experiment": "x", "model": "meta-llama/Llama-2-7b-hf", "gpu": "H100-SXM-80GB", "tp": "1", "dp": "1",
    "precision": "FP16/BF16", "vllm_version": "0.15.1 (fork with tracing)", "max_num_batched_tokens": "2048",
    "max_num_seqs": "128", "max_model_len": "4096", "gpu_mem_util": "0.9", "cpu_offload": "True", "stage": "1",
    "request_rate_rps": "10", "stage_duration_s": "600", "arrival": "constant rate", "isl_system": "100",
    "isl_nominal": "566", "osl_nominal": "247", "isl_observed_mean": "591.6", "ttft_mean_ms": "29.454",
    "ttft_p99_ms": "50.752", "tpot_from_e2e_ms": "8.888", "e2e_mean_ms": "2215.948",
}  # fmt: skip
MIXED = {
    "case_id": "P", "model": "meta-llama/Meta-Llama-3-8B-Instruct", "precision": "bf16", "gpu": "H100 80GB (GKE)",
    "n_gpus": "1", "engine": "vLLM", "engine_version": "0.11.0", "tp": "1", "pp": "", "ep": "", "dp_attn": "",
    "isl_mean": "204.1", "osl_mean": "62.4", "load_kind": "open-loop constant", "concurrency": "",
    "request_rate_rps": "31.4", "num_prompts": "1884", "ttft_mean_ms": "29.84", "ttft_p99_ms": "43.61",
    "tpot_mean_ms": "4.0", "e2e_mean_ms": "546.75", "output_tok_s_total": "1943.0",
    "notes": "max-num-seqs 128, no prefix cache, no chunked prefill; max-model-len 512, util 0.9",
}  # fmt: skip


def read(cells: Mapping[str, str], **changes: str) -> ServingRow:
    """One row read."""
    return read_cases([{**cells, **changes}], FOLDERS, CATALOG)[0]


def file_of(folder: Path, *rows: Mapping[str, str]) -> Path:
    """A CSV file of rows."""
    file = folder / "measured.csv"
    with file.open("w", newline="", encoding="utf-8") as target:
        writer = csv.DictWriter(target, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return file


def sweep(cells: Mapping[str, str], *clients: int) -> list[dict[str, str]]:
    """One row a number of clients, times growing with it."""
    return [
        {**cells, "concurrency": str(n), "batch_size": str(n), "tpot_ms": str(8 + n / 10), "ttft_ms": str(90 + 2 * n)}
        for n in clients
    ]
