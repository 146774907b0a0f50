"""Rows of serving files as cases: each spelling of a layout, a model and a protocol read as meant, or skipped."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.serving import Layout, ServingCase
from pipelines.planning.serving import KINDS, kind_of
from tests.pipelines.serving_rows import CLOSED, MIXED, MOE, OPEN, read


def case_of(cells: dict[str, str], **changes: str) -> ServingCase:
    row = read(cells, **changes)
    assert row.case is not None, row.skipped
    return row.case


def test_each_kind_of_file_is_told_by_its_columns() -> None:
    assert [kind_of(cells) for cells in (CLOSED, OPEN, MIXED)] == list(KINDS)
    assert kind_of(["model", "gpu", "engine", "concurrency", "isl", "osl"]) is None  # nothing measured
    assert kind_of(["a", "b"]) is None


@pytest.mark.parametrize("cells", [CLOSED, OPEN, MIXED])
def test_no_measured_column_reaches_the_case(cells: dict[str, str]) -> None:
    known = KINDS[kind_of(cells) or "mixed"]
    figures = {*known.measured.values(), "output_tok_s_total", "isl_observed_mean", "throughput_tok_s"} & set(cells)
    before = case_of(cells)
    for moved in ("", "123456", "nan", "-1", "=cmd"):
        assert case_of(cells, **dict.fromkeys(figures, moved)) == before


DEEP = {"precision": "fp4", "mode": "agg"}


@pytest.mark.parametrize(
    ("engine", "columns", "layout"),
    [
        # One measurement as three exports of one sweep spell it, then expert parallelism of vLLM in two of them.
        ("sglang", ("4", "1", "1", "4"), Layout(tp=4, ep=4)),
        ("sglang", ("16", "1", "4", "4"), Layout(tp=4, ep=4)),
        ("trtllm", ("64", "1", "8", "8"), Layout(tp=8, ep=8)),
        ("trtllm", ("1", "64", "8", "8"), Layout(tp=1, dp=8, ep=8)),
        ("trtllm", ("1", "8", "1", "8"), Layout(tp=1, dp=8, ep=8)),
        ("trtllm", ("1", "4", "2", "2"), Layout(tp=1, dp=2, ep=2)),
        ("trtllm", ("1", "4", "4", "1"), Layout(tp=1, dp=4)),
        ("trtllm", ("1", "16", "2", "8"), Layout(tp=1, dp=16, ep=8)),
        ("vllm", ("4", "1", "1", "4"), Layout(tp=4, ep=4)),
        ("vllm", ("4", "4", "1", "16"), Layout(tp=4, ep=4)),
        ("vllm", ("8", "1", "8", "1"), Layout(tp=8)),
    ],
)
def test_every_spelling_of_a_layout_is_read_as_the_gpus_it_had(
    engine: str, columns: tuple[str, ...], layout: Layout
) -> None:
    names = ("tp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size")
    assert case_of(MOE, engine=engine, **dict(zip(names, columns, strict=True))).layout == layout


def test_outside_such_sweeps_a_hybrid_of_expert_and_tensor_parallel_is_one() -> None:
    gap = {"provenance": "NVIDIA internal gap analysis: x.csv", "tp_size": "8", "attention_dp_size": ""}
    assert case_of(MOE, **gap, moe_tp_size="2", moe_ep_size="4").layout == Layout(tp=8, ep=4)
    assert case_of(MOE, provenance="mine", tp_size="64", moe_tp_size="8", moe_ep_size="8").layout == Layout(tp=8, ep=8)


def test_fewer_tp_ranks_than_expert_ranks_is_dp_attention() -> None:
    row = read(MOE, attention_dp_size="", tp_size="2", moe_tp_size="4", provenance="mine")
    assert row.case is not None and row.case.layout == Layout(tp=2, dp=2)
    assert any("DP attention" in said for said in row.assumed)
    assert "no divisor" in read(MOE, attention_dp_size="", tp_size="3", moe_tp_size="4").skipped


def test_the_gpus_of_a_whole_deployment_are_no_layout() -> None:
    assert "whole deployment" in read(MOE, tp_size="72", moe_tp_size="72").skipped


def test_a_dense_model_has_no_experts_to_spread() -> None:
    assert case_of(CLOSED, moe_tp_size="0.0", moe_ep_size="0.0", attention_dp_size="0.0").layout == Layout(tp=4)


SEPARATED = {
    "mode": "disagg", "tp_size": "", "pp_size": "", "attention_dp_size": "", "moe_tp_size": "", "moe_ep_size": "",
    "batch_size": "", "prefill_batch_size": "1.0", "prefill_num_workers": "5.0", "prefill_tp_size": "1.0",
    "prefill_pp_size": "1.0", "prefill_attention_dp_size": "8.0", "prefill_moe_tp_size": "1.0",
    "prefill_moe_ep_size": "8.0", "decode_batch_size": "32.0", "decode_num_workers": "1.0", "decode_tp_size": "1.0",
    "decode_pp_size": "1.0", "decode_attention_dp_size": "32.0", "decode_moe_tp_size": "1.0",
    "decode_moe_ep_size": "32.0", "concurrency": "1024",
}  # fmt: skip


def test_separated_pools_are_two_layouts() -> None:
    case = case_of(MOE, **SEPARATED)
    assert case.prefill == Layout(tp=1, dp=8, ep=8, workers=5, batch=8)
    assert case.layout == Layout(tp=1, dp=32, ep=32, workers=1, batch=1024)
    assert read(MOE, **SEPARATED).mode == "separated"


def test_separated_pools_of_unknown_size_are_left_out() -> None:
    assert "how many workers" in read(MOE, **{**SEPARATED, "decode_num_workers": ""}).skipped


def test_sweeps_draw_their_lengths_and_other_files_do_not() -> None:
    assert case_of(CLOSED).protocol.shortest_ratio == 0.8
    assert case_of(CLOSED, provenance="InferenceX db dump 2026-04-27").protocol.shortest_ratio == 0.8
    for other in ("", "my own", "NVIDIA internal gap analysis: h100"):
        assert case_of(CLOSED, provenance=other).protocol.shortest_ratio == 1.0
    assert any("10 prompts a client" in said for said in read(CLOSED).assumed)


@pytest.mark.parametrize(
    ("changes", "steps"),
    [
        ({"concurrency": "16"}, 15),
        ({"concurrency": "8"}, 5),
        ({"gpu": "h200_sxm"}, 0),
        ({"model": "zai-org/GLM-5"}, 0),
        ({"engine": "vllm"}, 0),
        ({"provenance": "my own"}, 0),
        ({"gpu": "A100-80GB"}, 0),
    ],
)
def test_a_sweeps_scripts_say_how_long_requests_wait_to_be_seen(changes: dict[str, str], steps: float) -> None:
    """SGLang's launch scripts on Blackwell look for requests every 30 steps, 10 below 16 clients; GLM's do not."""
    assert case_of(MOE, **changes).admission_wait_steps == steps


def test_a_sweeps_batch_wait_holds_where_its_script_sets_it() -> None:
    llama = {"engine": "trtllm", "gpu": "h200_sxm", "tp_size": "4"}
    assert case_of(CLOSED, **llama).admission_wait_steps == 20
    assert case_of(CLOSED, **{**llama, "tp_size": "8"}).admission_wait_steps == 0
    assert case_of(CLOSED, **{**llama, "osl": "8192"}).admission_wait_steps == 0


@pytest.mark.parametrize(
    ("changes", "tokens"),
    [
        ({"engine": "vllm", "precision": "fp4"}, 2048),
        ({"engine": "vllm", "precision": "fp4", "isl": "8192"}, 16384),
        ({"engine": "vllm", "gpu": "h200_sxm"}, 8192),
        ({"engine": "sglang", "precision": "fp4"}, 16384),
        ({"engine": "sglang", "precision": "fp8"}, 8192),
        ({"engine": "sglang", "gpu": "h200_sxm"}, 32768),
        ({"engine": "trtllm", "isl": "8192", "concurrency": "64"}, 8320),
        ({"engine": "trtllm", "model": "openai/gpt-oss-120b"}, 20000),
    ],
)
def test_a_sweeps_scripts_set_the_tokens_of_a_step(changes: dict[str, str], tokens: int) -> None:
    assert case_of(MOE, **changes).max_num_batched_tokens == tokens


def test_a_batch_below_the_concurrency_is_a_limit_where_it_is_no_copy() -> None:
    assert case_of(CLOSED).layout.batch is None
    assert case_of(CLOSED, batch_size="8").layout.batch is None
    assert case_of(CLOSED, batch_size="8", provenance="mine").layout.batch == 8
    assert "batch_size" in read(CLOSED, batch_size="8", provenance="NVIDIA internal gap analysis: x").skipped


@pytest.mark.parametrize("label", ["fp4", "fp8", "", "nvfp4", "bf16"])
def test_gpt_oss_is_mxfp4_with_bf16_attention_whatever_the_label(label: str) -> None:
    case = case_of(MOE, model="openai/gpt-oss-120b", precision=label, gemm_quant="", moe_quant="")
    assert case.precision == "fp4" and case.weights.scheme.scheme == "mxfp4"
    assert case.weights.scheme.attention_bits == 16 and case.weights.scheme.expert_bits < 5


@pytest.mark.parametrize("model", ["deepseek-ai/DeepSeek-R1", "moonshotai/Kimi-K2.5"])
def test_nvfp4_of_models_with_latent_attention_keeps_it_in_16_bits(model: str) -> None:
    case = case_of(MOE, model=model, precision="fp4")
    assert case.precision == "fp4" and case.weights.scheme.attention_bits == 16
    assert case.weights.scheme.expert_bits == 4.5


def test_kimis_own_int4_is_its_routed_experts_alone() -> None:
    case = case_of(MOE, model="moonshotai/Kimi-K2.5", precision="int4")
    assert case.precision == "int4"
    assert (case.weights.scheme.attention_bits, case.weights.scheme.dense_bits) == (16, 16)
    assert case.weights.expert_compute == "fp16"


def test_no_precision_is_the_checkpoints_own_or_16_bits() -> None:
    nothing = {"precision": "", "gemm_quant": "", "moe_quant": ""}
    assert case_of(CLOSED, **nothing).precision == "bf16"
    assert case_of(MOE, **nothing).precision == "fp8"  # the checkpoint declares it
    assert case_of(MOE, precision="", moe_quant="nvfp4").precision == "fp4"
    assert "precision" in read(CLOSED, precision="fp3").skipped


def test_a_quantised_sibling_is_its_base_model_in_that_scheme() -> None:
    row = read(MOE, model="nvidia/DeepSeek-R1-NVFP4", precision="", gemm_quant="", moe_quant="")
    assert row.case is not None and row.case.precision == "fp4"
    assert "config of deepseek-ai/DeepSeek-R1" in row.assumed
    assert row.case.weights.total_bytes == case_of(MOE, precision="fp4").weights.total_bytes


@pytest.mark.parametrize(
    ("name", "gpu_id"),
    [("b200_sxm", "B200-SXM"), ("gb200", "GB200"), ("H100 80GB (GKE)", "H100-SXM"), ("A100-80GB", "A100-80GB-SXM"),
     ("RTX4090-24GB", "RTX-4090"), ("RTXPRO6000-96GB", "RTX-PRO-6000-Blackwell-Server"), ("H200", "H200-SXM"),
     ("8xH100", "H100-SXM"), ("4 x GB200", "GB200")],
)  # fmt: skip
def test_accelerators_go_by_many_names(name: str, gpu_id: str) -> None:
    assert case_of(CLOSED, gpu=name).accelerator.gpu_id == gpu_id


@pytest.mark.parametrize(
    ("name", "engine"),
    [("vLLM", "vllm"), ("vllm-v1", "vllm"), ("dynamo-vllm", "vllm"), ("SGLang", "sglang"), ("dynamo-sglang", "sglang"),
     ("TRTLLM", "tensorrt-llm"), ("TensorRT-LLM", "tensorrt-llm"), ("trt-llm 1.0", "tensorrt-llm"),
     ("dynamo-trt", "tensorrt-llm")],
)  # fmt: skip
def test_engines_go_by_many_names(name: str, engine: str) -> None:
    assert case_of(CLOSED, engine=name).engine == engine


@pytest.mark.parametrize(
    ("label", "precision"),
    [("FP8", "fp8"), ("float8_e4m3fn", "fp8"), ("fp8_block", "fp8"), ("bfloat16", "bf16"), ("auto", "bf16"),
     ("FP16/BF16", "bf16"), ("AWQ", "int4"), ("w4a16", "int4"), ("nvfp4", "fp4")],
)  # fmt: skip
def test_precisions_go_by_many_labels(label: str, precision: str) -> None:
    assert case_of(CLOSED, precision=label).precision == precision


def test_expert_groups_that_the_gpus_cannot_be_cut_into_are_told() -> None:
    row = read(MOE, tp_size="2", attention_dp_size="1", moe_tp_size="1", moe_ep_size="4")
    assert row.skipped == "moe_ep_size 4 does not divide the 2 GPUs of tp_size x attention_dp_size"


@pytest.mark.parametrize(
    ("written", "version"),
    [("0.15.1 (fork with tracing)", "0.15.1"), (">=1.1 docs (PyTorch backend)", "1.1"), ("1.0.0rc3", "1.0.0rc3"),
     ("nightly-5b8c30d62b754b57", ""), ("glm5-hopper", ""), ("", ""), ("2026-02 main", "")],
)  # fmt: skip
def test_a_version_is_a_release_number_or_the_newest(written: str, version: str) -> None:
    row = read(CLOSED, engine_version=written)
    assert row.case is not None and row.case.engine_version == version
    assert any("version not stated" in said for said in row.assumed) == (version == "")


def test_the_engines_own_limits_fill_what_is_not_stated_and_say_so() -> None:
    row = read(CLOSED, provenance="mine")
    assert row.case is not None and row.case.max_num_batched_tokens == 8192
    assert any(said.startswith("max_num_batched_tokens 8192: the engine") for said in row.assumed)
    assert not any(said.startswith("max_num_batched_tokens") for said in read(CLOSED).assumed)
    assert any("launch scripts" in said for said in read(CLOSED).assumed)
    stated = case_of(OPEN)
    assert (stated.max_num_batched_tokens, stated.max_num_seqs) == (2048, 128)


def test_an_open_loop_run_has_a_rate_a_shared_prefix_and_nominal_lengths() -> None:
    row = read(OPEN)
    assert row.case is not None
    load = row.case.protocol
    assert (load.rate_rps, load.shared_prefix_tokens, load.requests) == (10, 100, 6000)
    assert (row.case.isl_tokens, row.case.osl_tokens) == (566, 247)
    assert row.measured == {"ttft": 29.454, "tpot": 8.888, "e2e": 2215.948, "ttft_p99": 50.752}


def test_a_sum_of_stages_is_no_run_and_a_first_stage_has_no_p99() -> None:
    assert "stages" in read(OPEN, stage="-1").skipped
    assert "constant rate" in read(OPEN, arrival="trace x.jsonl").skipped
    first = read(OPEN, stage="0")
    assert "ttft_p99" in first.measured and "ttft_p99" not in first.counted
    assert "ttft" in first.counted


def test_offline_throughput_keeps_as_many_requests_as_memory_and_the_engine_allow() -> None:
    offline = {"load_kind": "offline max throughput (infinite rate)", "request_rate_rps": "", "notes": ""}
    few = case_of(MIXED, **offline, isl_mean="6000", osl_mean="1000")
    assert few.kv_tokens is not None and few.protocol.concurrency == few.kv_tokens // 6500
    assert case_of(MIXED, **offline).protocol.concurrency == case_of(MIXED, **offline).max_num_seqs
    row = read(MIXED, **offline, output_tok_s_total="25000")
    assert row.counted["throughput"] == 25000 and "throughput" not in read(MIXED).counted
    assert "memory" in read(MIXED, **offline, model="meta-llama/Llama-3.1-70B").skipped


def test_the_tpot_of_a_stage_is_worked_out_of_its_end_to_end_time() -> None:
    """inference-perf counts chunks of the stream, about two tokens each."""
    stage = read(MIXED, source_kind="open-loop stage json")
    assert stage.measured["tpot"] == pytest.approx((546.75 - 29.84) / 61.4)
    assert read(MIXED, source_kind="bench output in thread").measured["tpot"] == 4.0


def test_a_name_without_a_config_is_looked_for_under_other_names_of_its_shape() -> None:
    row = read(MIXED, model="nvidia/Llama-3.1-405B-Instruct", tp="8", n_gpus="8")
    assert row.case is not None and any("405B" in said for said in row.assumed)
    scout = read(MIXED, model="Llama-4-Scout")
    assert scout.case is not None and any("Llama-4-Scout-17B-16E" in said for said in scout.assumed)


def test_a_case_says_how_many_tokens_its_cache_holds() -> None:
    held = case_of(CLOSED).kv_tokens
    assert held is not None and 300_000 < held < 2_000_000
    more = case_of(CLOSED, gpu="h200_sxm").kv_tokens
    assert more is not None and more > held


def test_a_collection_holds_stages_bursts_and_what_is_not_predicted() -> None:
    stage = case_of(MIXED)
    assert stage.protocol.rate_rps == 31.4 and stage.max_num_seqs == 128
    cached = case_of(MIXED, notes="prefix cache + chunked prefill; shared_prefix data (10 system prompts x 128 tok)")
    assert cached.protocol.shared_prefix_tokens == 128
    burst = case_of(MIXED, load_kind="burst inf", request_rate_rps="inf", num_prompts="60").protocol
    assert (burst.concurrency, burst.prompts_per_client) == (60, 1)
    assert "speculative" in read(MIXED, model="Llama-3-8B-Instruct + EAGLE3").skipped
    assert "engine" in read(MIXED, engine="JetStream").skipped
    assert case_of(MIXED, dp_attn="yes", n_gpus="4", tp="4", ep="4").layout == Layout(tp=1, dp=4, ep=4)


@pytest.mark.parametrize(
    ("changes", "word"),
    [({"concurrency": ""}, "concurrency"), ({"concurrency": "-4"}, "concurrency"), ({"concurrency": "nan"}, "concur"),
     ({"isl": "1e99"}, "isl"), ({"osl": "many"}, "osl"), ({"tp_size": "2.5"}, "tp_size"), ({"gpu": "H900"}, "gpu"),
     ({"gpu": ""}, "gpu"), ({"engine": "tgi"}, "engine"), ({"model": "no/ne"}, "config"), ({"model": ""}, "model"),
     ({"mode": "both"}, "mode"), ({"isl": "1e6"}, "more than the model's"), ({"concurrency": "1e6"}, "clients"),
     ({"concurrency": "16000", "isl": "100000"}, "tokens of theirs"),
     ({"gpu": "rtx_3090"}, "RTX-3090: the catalogue has no bandwidth"), ({"precision": "mixed"}, "precision")],
)  # fmt: skip
def test_a_cell_that_cannot_be_read_skips_its_row_naming_what(changes: dict[str, str], word: str) -> None:
    row = read(CLOSED, **changes)
    assert row.case is None and word in row.skipped and "\n" not in row.skipped


HOSTILE = st.one_of(
    st.text(max_size=20),
    st.sampled_from(["-1", "0", "0.0", "nan", "inf", "1e308", "4", "=1+1", "../../etc/passwd", "'; drop table x", "٣"]),
)


@settings(max_examples=200, deadline=None)
@given(data=st.data(), which=st.sampled_from([CLOSED, MOE, OPEN, MIXED]))
def test_any_cells_make_a_case_or_a_reason_in_one_line(data: Any, which: dict[str, str]) -> None:
    changes = data.draw(st.dictionaries(st.sampled_from(sorted(which)), HOSTILE, max_size=4))
    row = read(which, **changes)
    assert (row.case is None) == bool(row.skipped)
    assert "\n" not in row.skipped and len(row.skipped) <= 300
