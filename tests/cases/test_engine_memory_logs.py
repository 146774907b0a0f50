"""Start-up logs of real engines: what the account predicts from their configuration against what they printed.

The figures asserted are the ones reached over the rows that state their configuration; the table is printed.
"""

from __future__ import annotations

import csv
import json
from collections import Counter, defaultdict
from pathlib import Path
from statistics import median

import pytest

from estimator.architecture import Architecture
from estimator.configs import UnsupportedConfig, parse_config
from estimator.engines import profile_values, resolve_settings
from estimator.memory import kv
from estimator.memory.logs import LogPrediction, Unpredictable, predict_log, summary
from estimator.versions import before, version_key
from tests.estimator.memory_fixtures import CATALOG, accelerators, model, profile

Rows = list[dict[str, str]]


def by_name(shared: Path) -> dict[str, Architecture]:
    """Models by id and by its last part, lower case: the given configs first, then the shipped ones."""
    found: dict[str, Architecture] = {}
    for folder in (CATALOG / "models", shared / "data" / "hf_configs"):
        for file in sorted(folder.glob("*--*.json")):
            name = file.stem.replace("--", "/", 1)
            if ".partial" in name or ".blis" in name or "hf_quant_config" in name:
                continue
            try:
                parsed = parse_config(json.loads(file.read_text(encoding="utf-8")), name)
            except UnsupportedConfig:
                continue
            found[name.lower()] = parsed
            found.setdefault(name.split("/")[-1].lower(), parsed)
    return found


@pytest.fixture(scope="module")
def rows(shared: Path) -> Rows:
    with (shared / "cases" / "engine_memory_logs.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def predictions(rows: Rows, shared: Path) -> tuple[dict[str, tuple[dict[str, str], LogPrediction]], dict[str, str]]:
    """Predicted rows by case, and the reason of each that is not predicted."""
    known = by_name(shared)
    found: dict[str, tuple[dict[str, str], LogPrediction]] = {}
    reasons: dict[str, str] = {}
    for row in rows:
        architecture = known.get(row["model_id"].lower()) or known.get(row["model_id"].split("/")[-1].lower())
        if architecture is None:
            reasons[row["case_id"]] = f"no config of {row['model_id']}"
            continue
        try:
            found[row["case_id"]] = (row, predict_log(row, architecture, accelerators(), profile()))
        except Unpredictable as reason:
            reasons[row["case_id"]] = str(reason)
    return found, reasons


def errors(found: dict[str, tuple[dict[str, str], LogPrediction]], column: str, *, stated: bool) -> list[float]:
    """Relative errors of a column over rows whose start-up succeeded; `stated`: nothing of them was assumed."""
    return [
        prediction.errors[column]
        for row, prediction in found.values()
        if column in prediction.errors and row["outcome"] == "ok" and not (stated and prediction.assumed)
    ]


def test_the_error_table(predictions: tuple[dict[str, tuple[dict[str, str], LogPrediction]], dict[str, str]]) -> None:
    found, reasons = predictions
    table: dict[tuple[str, ...], dict[str, float]] = {}
    groups: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for case, (row, _) in found.items():
        groups[row["engine"].split()[0], era(row["engine_version"]), (row["gpu"] or "?").split()[0]].append(case)
    columns = ("weights_gib_per_gpu", "activation_peak_gib", "kv_gib_per_gpu", "kv_tokens", "max_concurrency")
    for group, cases in sorted(groups.items()):
        part = {case: found[case] for case in cases}
        for column in ("weights_gib_per_gpu", "kv_tokens", "max_concurrency"):
            table[(*group, column)] = summary(errors(part, column, stated=False))
    for column in columns:
        table["all", column] = summary(errors(found, column, stated=False))
        table["stated", column] = summary(errors(found, column, stated=True))
    for key, line in table.items():
        if line["rows"]:
            print(*key, {name: round(value, 4) for name, value in line.items()})
    print(Counter(reason.split(":")[0][:40] for reason in reasons.values()).most_common(8))
    assert len(found) >= 60


def era(version: str) -> str:
    """The range of versions that budget alike."""
    number = version_key(version)
    if not number:
        return "unstated"
    if "V0" in version or before(number, (0, 8)):
        return "V0"
    return "V1 to 0.16" if before(number, (0, 17)) else "0.17 to 0.20" if before(number, (0, 21)) else "0.21 on"


def test_no_single_family_holds_up_the_samplers_figure(
    predictions: tuple[dict[str, tuple[dict[str, str], LogPrediction]], dict[str, str]], shared: Path
) -> None:
    """Bytes a logit solved from each start-up of 0.19 whose peak is the sampler's; then each family left out."""
    known, by_family = by_name(shared), defaultdict(list)
    profile_019 = profile_values("vllm", "0.19.0", accelerators()["H100-SXM"], profile())
    base, copies = (
        profile_019[name].value * scale
        for name, scale in (("activation_base_gib", 2**30), ("sampler_hidden_copies", 1.0))
    )
    for row, _ in predictions[0].values():
        if row["engine_version"] != "0.19.0" or not row["activation_peak_gib"] or row["pp"] != "1":
            continue
        architecture = known[row["model_id"].lower()]
        seqs, tokens = int(row["max_num_seqs"]), int(row["max_num_batched_tokens"])
        logits, routed = seqs * architecture.vocab_size, any(y.feed_forward.experts for y in architecture.layers)
        if routed or architecture.multimodal or architecture.vocab_size < 100_000 or row["weights_quant"] == "float32":
            continue
        rest = base + copies * tokens * architecture.hidden_size * 2 + logits * 2
        by_family[row["family"]].append((float(row["activation_peak_gib"]) * 2**30 - rest) / logits)
    everything = median(value for values in by_family.values() for value in values)
    assert len(by_family) >= 4
    assert everything == pytest.approx(profile_019["sampler_bytes_per_logit"].value, rel=0.02)
    for family in by_family:
        others = median(value for name, values in by_family.items() if name != family for value in values)
        print(family, round(median(by_family[family]), 2), "without it", round(others, 2))
        assert others == pytest.approx(everything, rel=0.02), family


def test_kv_tokens_are_within_2_percent_at_the_median_and_8_at_the_90th(
    predictions: tuple[dict[str, tuple[dict[str, str], LogPrediction]], dict[str, str]],
) -> None:
    for stated in (True, False):
        line = summary(errors(predictions[0], "kv_tokens", stated=stated))
        assert line["rows"] >= 40
        assert line["median"] <= 0.002
        assert line["p90"] <= 0.08
    assert summary(errors(predictions[0], "kv_tokens", stated=True))["p90"] <= 0.04


def test_loaded_weights_are_within_1_percent_at_the_median_and_5_for_4_bit(
    predictions: tuple[dict[str, tuple[dict[str, str], LogPrediction]], dict[str, str]],
) -> None:
    line = summary(errors(predictions[0], "weights_gib_per_gpu", stated=True))
    assert line["median"] <= 0.001
    assert line["p90"] <= 0.01
    four_bit = [
        prediction.errors["weights_gib_per_gpu"]
        for row, prediction in predictions[0].values()
        if "4" in row["weights_quant"] and "weights_gib_per_gpu" in prediction.errors
    ]
    assert four_bit
    assert max(map(abs, four_bit)) <= 0.05


def test_activation_is_within_4_percent_at_the_90th_on_stated_rows_of_whole_models(
    predictions: tuple[dict[str, tuple[dict[str, str], LogPrediction]], dict[str, str]],
) -> None:
    whole = {
        case: (row, prediction) for case, (row, prediction) in predictions[0].items() if row["evidence"] != "quoted_log"
    }
    line = summary(errors(whole, "activation_peak_gib", stated=True))
    assert line["median"] <= 0.01
    assert line["p90"] <= 0.04


def test_kv_bytes_per_token_are_exact_on_every_row_of_one_stage_that_states_its_memory_and_tokens(
    predictions: tuple[dict[str, tuple[dict[str, str], LogPrediction]], dict[str, str]],
) -> None:
    checked = 0
    for case, (row, prediction) in predictions[0].items():
        if not (row["kv_gib_per_gpu"] and row["kv_tokens"]) or row["pp"] not in {"", "1"}:
            continue
        if case in NOT_EXACT or prediction.account.layout.at_length:
            continue
        budget, tokens = float(row["kv_gib_per_gpu"]), float(row["kv_tokens"])
        # Half a hundredth of a GiB is the print's rounding; a block at the end is not used.
        slack = 0.006 / budget + prediction.account.layout.printed_block_tokens * 2 / tokens
        stated = budget * 2**30 / tokens
        assert prediction.account.kv_bytes_per_token_per_gpu == pytest.approx(stated, rel=slack + 1e-5), case
        checked += 1
    assert checked >= 40


NOT_EXACT = {
    "M084",  # prints a rank's memory and another rank's tokens: 48,681 B where 94 x 2 x 128 x 2 is 48,128
    "M085",  # prints K and V rounded apart
    "M105",  # prints 318 or 319 blocks' tokens: checked below
    "M129",  # a draft model's layers share the pool: 33 layers where the model has 32
}

HYBRIDS = {
    # case: (model, KV dtype, what the row leaves unsaid)
    "M007": ("google/gemma-2-27b-it", "auto"),
    "M008": ("google/gemma-2-2b-it", "auto"),
    "M010": ("google/gemma-3-12b-it", "auto"),
    "M012": ("google/gemma-3-4b-it", "auto"),
    "M044": ("openai/gpt-oss-20b", "auto"),
    "M045": ("openai/gpt-oss-20b", "auto"),
    "M046": ("openai/gpt-oss-20b", "auto"),
    "M105": ("moonshotai/Kimi-Linear-48B-A3B-Instruct", "auto"),
    "M113": ("Qwen/Qwen3.6-35B-A3B", "fp8"),
    "M114": ("Qwen/Qwen3.6-35B-A3B", "fp8"),
}


@pytest.mark.parametrize("case", HYBRIDS)
def test_a_hybrids_pages_turn_its_printed_memory_into_its_printed_concurrency(case: str, rows: Rows) -> None:
    row = next(row for row in rows if row["case_id"] == case)
    model_id, dtype = HYBRIDS[case]
    architecture: Architecture = model(model_id)
    card = accelerators()["H100-SXM"]
    version = row["engine_version"].split()[0]
    settings = resolve_settings(
        "vllm",
        version,
        card,
        architecture,
        profile(),
        {
            "max_model_len": int(row["max_model_len"]),
            "kv_cache_dtype": dtype,
            "max_num_batched_tokens": int(row["max_num_batched_tokens"]),
        },
    )
    known = profile_values("vllm", version, card, profile())
    layout = kv.layout(architecture.layers, settings, int(row["tp"]), 2, known)
    budget = float(row["kv_gib_per_gpu"])
    low, high = (
        layout.blocks((budget + half) * 2**30) / layout.blocks_per_request(settings.max_model_len)
        for half in (-0.005, 0.005)
    )
    printed = float(row["max_concurrency"])
    # The printed memory is rounded: the concurrency must lie between its two ends, to two decimals.
    assert low - 0.005 <= printed <= high + 0.005
    if row["num_blocks"]:
        blocks = int(row["num_blocks"])
        assert round(blocks / layout.blocks_per_request(settings.max_model_len), 2) == pytest.approx(printed, abs=0.011)
        assert layout.printed_tokens(blocks, settings.max_model_len) == int(row["kv_tokens"])


def test_a_row_without_its_accelerator_gets_what_does_not_depend_on_one() -> None:
    row = {"engine": "vLLM", "engine_version": "0.21.0", "model_id": LLAMA, "tp": "2", "weights_gib_per_gpu": "7.51"}
    row |= {"kv_gib_per_gpu": "40", "kv_bytes_per_token_gpu_implied": "65536", "max_concurrency": "9"}
    found = predict_log(row, model(LLAMA), accelerators(), profile())
    assert set(found.errors) == {"weights_gib_per_gpu", "kv_bytes_per_token_gpu_implied"}
    assert found.errors["kv_bytes_per_token_gpu_implied"] == 0
    assert not found.sized and any("memory is not known" in text for text in found.assumed)
    known = predict_log(row | {"gpu": "H100"}, model(LLAMA), accelerators(), profile())
    assert known.sized and "max_concurrency" in known.errors


def test_a_row_that_states_no_ranks_is_taken_for_the_fewest_that_hold_the_model() -> None:
    big = "deepseek-ai/DeepSeek-V2.5"
    row = {"engine": "vLLM", "engine_version": "0.9.0", "model_id": big, "gpu": "A100 40GB", "max_model_len": "8192"}
    found = predict_log(row, model(big), accelerators(), profile())
    assert found.account.feasible
    assert found.account.weights_gib_per_gpu == pytest.approx(441 / 16, rel=0.05)
    alone = predict_log(row | {"model_id": LLAMA}, model(LLAMA), accelerators(), profile())
    assert alone.account.weights_gib_per_gpu > 14


def test_a_log_that_fits_is_not_said_to_fail(
    predictions: tuple[dict[str, tuple[dict[str, str], LogPrediction]], dict[str, str]],
) -> None:
    wrong = {
        case
        for case, (row, prediction) in predictions[0].items()
        if row["outcome"] == "ok" and prediction.sized and not prediction.account.feasible and row["mem_util"]
    }
    assert wrong <= {"M072"}  # its own figures add up at 0.95, not at the 0.9 it states
    failed = [p for row, p in predictions[0].values() if row["outcome"] == "fail" and p.sized]
    assert sum(not p.account.feasible for p in failed) >= 9


LLAMA = "meta-llama/Llama-3.1-8B-Instruct"


def test_rows_that_cannot_be_predicted_say_why(
    predictions: tuple[dict[str, tuple[dict[str, str], LogPrediction]], dict[str, str]], rows: Rows
) -> None:
    found, reasons = predictions
    assert len(found) + len(reasons) == len(rows)
    assert all(reasons.values())
