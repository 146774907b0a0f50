"""The account of a GPU: its identity by engine, what is sliced or copied, what does not fit and what mends it."""

from __future__ import annotations

import csv
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.engines import UnknownEngine, resolve_settings
from estimator.hardware import ALIASES, Accelerator, resolve_gpu
from estimator.memory import memory_account, tensor_parallel_problem
from estimator.memory.limits import stage_layers
from estimator.weights import weights
from tests.estimator.memory_fixtures import CATALOG, accelerators, account, model, profile
from warehouse.registry import table

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
LLAMA_70B = "meta-llama/Llama-3.1-70B-Instruct"
QWEN_72B = "Qwen/Qwen2.5-72B-Instruct"
V3 = "deepseek-ai/DeepSeek-V3"
LEFT = "sparse_attention_config: the index beside the cache is not sized"


def term(found: object, name: str) -> float:
    return next(float(t.value) for t in found.terms if t.term == name)  # type: ignore[attr-defined]


def test_vllm_keeps_the_accounting_identity() -> None:
    found = account(LLAMA, gpu_memory_utilization=0.95, max_model_len=8192)
    left = 79.19 * 0.95 - found.weights_gib_per_gpu - found.activation_gib_per_gpu - found.non_torch_gib_per_gpu
    assert found.kv_budget_gib_per_gpu == pytest.approx(left)


def test_from_0_21_on_cuda_graphs_come_out_of_the_budget() -> None:
    before = account(LLAMA, version="0.20.2", gpu_memory_utilization=0.9)
    after = account(LLAMA, version="0.21.0", gpu_memory_utilization=0.9)
    lost = before.kv_budget_gib_per_gpu - after.kv_budget_gib_per_gpu
    assert lost == pytest.approx(after.graph_gib_per_gpu)
    assert lost > 0.5


def test_tensorrt_llm_takes_its_share_of_what_is_free_after_weights() -> None:
    found = account(LLAMA, engine="tensorrt-llm", version="1.0")
    free = 79.19 - found.weights_gib_per_gpu - found.activation_gib_per_gpu - found.non_torch_gib_per_gpu
    assert found.kv_budget_gib_per_gpu == pytest.approx(0.9 * free)


def test_sglang_takes_weights_and_cache_from_one_share() -> None:
    found = account(LLAMA, engine="sglang", version="0.5.10", gpu_memory_utilization=0.8)
    assert found.kv_budget_gib_per_gpu == pytest.approx(
        0.8 * (79.19 - found.non_torch_gib_per_gpu) - found.weights_gib_per_gpu
    )


def test_sglang_derives_its_share_from_memory_class_and_version() -> None:
    assert term(account(LLAMA, engine="sglang", version="0.4.0"), "utilization") == 0.88
    # 512 MiB, 1.5 MiB a chunk token, 2 MiB a graph sequence, 128 MiB a rank of 79.19 GiB
    reserved = 512 + 8192 * 1.5 + 256 * 2 + 128
    expected = 1 - reserved / (79.19 * 1024)
    assert term(account(LLAMA, engine="sglang", version="0.5.10"), "utilization") == pytest.approx(expected, abs=1e-3)


def test_sglang_leaves_room_for_a_vision_tower() -> None:
    text = account("Qwen/Qwen3-8B", engine="sglang", version="0.5.6")
    seeing = account("Qwen/Qwen3-VL-8B-Instruct", engine="sglang", version="0.5.6")
    # Its tower is 1,152 wide; it names no num_hidden_layers, so 24 are taken: 1.27 of ViT-L.
    factor = 0.95 * (1 - 0.1 * (1152**2 / 1024**2 - 1))
    assert term(seeing, "utilization") == pytest.approx(term(text, "utilization") * factor)
    asked = account("Qwen/Qwen3-VL-8B-Instruct", engine="sglang", version="0.5.6", gpu_memory_utilization=0.8)
    assert term(asked, "utilization") == 0.8


def test_a_model_not_wholly_accounted_for_has_no_cache_figure_and_says_what_is_missing() -> None:
    for left in (LEFT, "sparse_attention_config: the index beside the cache is not sized"):
        architecture = replace(model(LLAMA), unaccounted=(left,))
        for engine, version in (("vllm", "0.19.0"), ("sglang", "0.5.6"), ("tensorrt-llm", "1.0")):
            options = resolve_settings(engine, version, accelerators()["H100-SXM"], architecture, profile())
            held = weights(architecture)
            found = memory_account(architecture, held, accelerators()["H100-SXM"], options, profile=profile())
            assert not found.feasible
            assert left in found.reasons[0]
            assert (found.kv_budget_tokens, found.kv_blocks, found.max_concurrency(8192)) == (0, 0, 0.0)
            assert found.least_change == ""
            assert {t.label for t in found.terms[2:]} == {"assumed"}


def test_memory_outside_the_allocator_depends_on_the_links_between_cards() -> None:
    # NVLS buffers came with Hopper's switches: 2.08 GiB at TP2 from 0.18 on, not on cards that meet over PCIe.
    assert account(LLAMA, "H100-SXM", tp=2).non_torch_gib_per_gpu == 2.08
    assert account(LLAMA, "A100-80GB-SXM", tp=2).non_torch_gib_per_gpu < 1
    assert account(LLAMA, "RTX-PRO-6000-Blackwell-Server", tp=2).non_torch_gib_per_gpu < 0.5
    assert account(LLAMA, "RTX-4090", version="0.11.0", tp=2).non_torch_gib_per_gpu == 0.25


def test_terms_stand_in_reading_order_with_label_and_source() -> None:
    found = account(LLAMA)
    names = [t.term for t in found.terms]
    assert names[:3] == ["visible_memory", "utilization", "weights"]
    assert names.index("kv_budget") < names.index("kv_budget_tokens") < names.index("max_concurrency")
    labels = table("plan_memory").column("label").allowed
    assert all(t.label in labels and t.source and t.unit is not None for t in found.terms)


def test_loaded_weights_are_the_files_and_the_rotary_table() -> None:
    files = 8_030_261_248 * 2 / 2**30
    assert account(LLAMA).weights_gib_per_gpu == pytest.approx(files + 131_072 * 128 * 2 / 2**30, abs=1e-3)


def test_pipeline_stages_are_uneven_where_embedding_and_head_stand() -> None:
    assert account(LLAMA, pp=4).weights_gib_per_gpu == pytest.approx(4.26, abs=0.005)
    assert account(LLAMA, pp=4).weights_gib_per_gpu > account(LLAMA).weights_gib_per_gpu / 4 * 1.1


def test_a_log_of_pipeline_stages_prints_the_first_stages_memory_and_the_binding_ones_tokens() -> None:
    found = account(LLAMA, pp=2)
    first = found.first_stage
    assert first.activation_gib < found.activation_gib_per_gpu  # no sampler before the last stage
    assert first.budget_gib > found.kv_budget_gib_per_gpu
    alone = account(LLAMA)
    assert alone.first_stage.weights_gib == alone.weights_gib_per_gpu
    assert alone.first_stage.budget_gib == alone.kv_budget_gib_per_gpu


def test_cuda_graphs_shrink_with_the_queries_of_a_rank_and_stop_growing_at_the_widths_seen() -> None:
    measured = {1: 0.91, 2: 0.76, 4: 0.67}  # Llama-3.1-8B, vLLM 0.19
    for tp, gib in measured.items():
        assert account(LLAMA, tp=tp).graph_gib_per_gpu == pytest.approx(gib, rel=0.05)
    wide = account("deepseek-ai/DeepSeek-V4-Flash", "H200-SXM", version="0.24.0", max_model_len=8192)
    assert wide.graph_gib_per_gpu == pytest.approx(0.38 + 0.69 + 43 * (0.0072 + 0.0091))


@given(st.integers(80, 98))
def test_a_lower_utilisation_never_makes_the_warm_up_fail(percent: int) -> None:
    def lacks(share: float) -> bool:
        found = account("openai/gpt-oss-20b", gpu_memory_utilization=share, max_model_len=8192)
        return any("drawing for" in reason for reason in found.reasons)

    assert lacks(percent / 100) or not lacks((percent - 1) / 100)


@pytest.mark.parametrize(
    ("version", "gpu", "gib"),
    [("0.10.1", "H100-SXM", 65.97), ("0.14.1", "H100-SXM", 64.38), ("0.14.1", "A100-80GB-SXM", 65.97)],
)
def test_mxfp4_experts_grow_to_the_multiples_of_the_kernel_a_version_runs(version: str, gpu: str, gib: float) -> None:
    found = account("openai/gpt-oss-120b", gpu, version=version, gpu_memory_utilization=0.99)
    assert found.weights_gib_per_gpu == pytest.approx(gib, rel=0.003)


def test_mla_cached_every_head_before_0_7_and_kept_products_of_its_projections_before_0_8() -> None:
    lite = "deepseek-ai/DeepSeek-V2-Lite-Chat"
    old = account(lite, version="0.6.4", max_model_len=4096)
    assert old.kv_bytes_per_token_per_gpu == 27 * 2 * 16 * 256 * 2  # heads of 192 padded to 256
    found = account(lite, "A100-40GB-SXM", version="0.7.3", tp=8, max_model_len=4096)
    assert found.kv_bytes_per_token_per_gpu == 27 * 576 * 2
    assert found.weights_gib_per_gpu == pytest.approx(3.97, rel=0.005)
    assert account(lite, version="0.8.5", tp=8).weights_gib_per_gpu < found.weights_gib_per_gpu - 0.2


@given(st.integers(1, 200), st.integers(1, 32))
def test_stages_hold_every_layer_and_differ_by_one_at_most(layers: int, pp: int) -> None:
    if pp > layers:
        with pytest.raises(ValueError, match="stages"):
            stage_layers(layers, pp)
        return
    sizes = stage_layers(layers, pp)
    assert sum(sizes) == layers
    assert max(sizes) - min(sizes) <= 1
    assert sizes[-1] == min(sizes)


@pytest.mark.parametrize("tp", [1, 2, 4, 8])
def test_tp_slices_kv_heads_and_never_below_one(tp: int) -> None:
    rate = account("Qwen/Qwen3-30B-A3B", tp=tp).kv_bytes_per_token_per_gpu
    assert rate == 2 * 48 * max(1, 4 // tp) * 128 * 2


@pytest.mark.parametrize(("dtype", "rate"), [("bfloat16", 70_272), ("fp8", 35_136)])
def test_mla_is_whole_on_every_rank_without_a_factor_2(dtype: str, rate: int) -> None:
    h200 = accelerators()["H200-SXM"]
    for tp in (8, 16):
        assert account(V3, h200, tp=tp, kv_cache_dtype=dtype).kv_bytes_per_token_per_gpu == rate


@pytest.mark.parametrize(
    ("model_id", "tp", "why"),
    [
        (LLAMA, 3, "does not divide 32 attention heads"),
        ("Qwen/Qwen3-14B", 5, "5 and 8 key/value heads"),
        ("Qwen/Qwen2.5-7B-Instruct", 8, "does not divide 28 attention heads"),
        (LLAMA, 0, "not a size"),
    ],
)
def test_tp_is_refused_where_the_engine_refuses_it(model_id: str, tp: int, why: str) -> None:
    problem = tensor_parallel_problem(model(model_id), tp)
    assert problem is not None
    assert why in problem


def test_tp_beyond_the_kv_heads_is_accepted() -> None:
    assert tensor_parallel_problem(model("Qwen/Qwen3-30B-A3B"), 8) is None


def test_experts_spread_over_data_parallel_ranks_while_attention_is_copied() -> None:
    architecture, h200 = model(V3), accelerators()["H200-SXM"]
    options = resolve_settings("vllm", "0.19.0", h200, architecture, profile(), {"max_model_len": 8192})
    held = weights(architecture)
    alone = memory_account(architecture, held, h200, options, tp=8, ep=8, profile=profile())
    shared = memory_account(architecture, held, h200, options, tp=1, dp=8, ep=8, profile=profile())
    attention = sum(layer.attention.parameters for layer in architecture.layers) / 2**30
    assert shared.weights_gib_per_gpu - alone.weights_gib_per_gpu > 0.5 * attention * 7 / 8
    assert shared.weights_gib_per_gpu < 0.3 * held.total_bytes / 2**30


def test_an_engine_cuts_experts_over_all_ranks_that_share_them_whatever_its_name() -> None:
    architecture, h200 = model(V3), accelerators()["H200-SXM"]
    held = weights(architecture)

    def gib(engine: str, version: str, tp: int, dp: int, ep: int) -> float:
        options = resolve_settings(engine, version, h200, architecture, profile(), {"max_model_len": 8192})
        return memory_account(
            architecture, held, h200, options, tp=tp, dp=dp, ep=ep, profile=profile()
        ).weights_gib_per_gpu

    # 256 experts: 32 whole ones a rank, 64 halves or 256 eighths hold the same bytes.
    assert gib("sglang", "0.5.10", 1, 8, 8) == pytest.approx(gib("sglang", "0.5.10", 1, 8, 4))
    assert gib("sglang", "0.5.10", 1, 8, 4) == pytest.approx(gib("sglang", "0.5.10", 1, 8, 1))
    assert gib("sglang", "0.5.10", 1, 8, 8) == pytest.approx(gib("vllm", "0.19.0", 1, 8, 8))
    assert gib("sglang", "0.5.10", 8, 1, 1) < gib("sglang", "0.5.10", 1, 8, 1)


@pytest.mark.parametrize(
    ("model_id", "tp", "why"),
    [
        ("Qwen/Qwen3-235B-A22B-FP8", 8, "expert width 1536 into 192"),  # 1536 / 8 is no multiple of 128
        ("Qwen/Qwen3-30B-A3B-FP8", 4, "expert width 768 into 192"),
        ("deepseek-ai/DeepSeek-V4-Flash", 16, "8 groups"),
    ],
)
def test_tp_is_refused_where_a_rank_would_get_part_of_a_quantised_block(model_id: str, tp: int, why: str) -> None:
    problem = tensor_parallel_problem(model(model_id), tp)
    assert problem is not None
    assert why in problem
    assert tensor_parallel_problem(model(model_id), tp // 2) is None


def test_experts_kept_whole_are_not_cut_into_blocks() -> None:
    cut = model("Qwen/Qwen3-235B-A22B-FP8")
    assert tensor_parallel_problem(cut, 8, ep=8) is None
    assert tensor_parallel_problem(cut, 8, scheme=weights(model("Qwen/Qwen3-235B-A22B"), "bf16").scheme) is None


def test_vllm_alone_refuses_ranks_its_padded_vocabulary_does_not_divide_into() -> None:
    three_heads = replace(model("Qwen/Qwen2.5-7B-Instruct"), vocab_size=152_000)  # 28 heads: 7 divides them
    assert "vocabulary" in str(tensor_parallel_problem(replace(three_heads, layers=()), 7))
    assert tensor_parallel_problem(replace(three_heads, layers=()), 7, engine="sglang") is None


@given(st.sampled_from([LLAMA, QWEN_72B, V3, "Qwen/Qwen3-30B-A3B", "openai/gpt-oss-20b"]), st.integers(2, 64))
def test_a_tp_that_is_offered_divides_heads_widths_and_vocabulary(model_id: str, tp: int) -> None:
    architecture = model(model_id)
    if tensor_parallel_problem(architecture, tp) is None:
        for layer in architecture.layers:
            assert layer.attention.heads % tp == 0
            assert layer.feed_forward.intermediate_size % tp == layer.feed_forward.expert_intermediate_size % tp == 0
        assert -(-architecture.vocab_size // 64) * 64 % tp == 0


def test_a_card_smaller_than_the_weights_says_so_and_what_would_fit() -> None:
    found = account(LLAMA, "T4", max_model_len=4096)
    assert not found.feasible
    assert "no memory is left for the KV cache" in found.reasons[0]
    assert found.least_change == "It fits with tensor parallel 2."


def test_a_length_the_cache_cannot_hold_asks_for_the_smallest_change() -> None:
    found = account(QWEN_72B, tp=2, max_model_len=32_768, gpu_memory_utilization=0.95)
    assert not found.feasible
    assert "hold no request of max_model_len 32,768" in found.reasons[0]
    shorter = int(found.least_change.split()[-1].rstrip("."))
    assert account(QWEN_72B, tp=2, max_model_len=shorter, gpu_memory_utilization=0.95).feasible
    assert not account(QWEN_72B, tp=2, max_model_len=shorter + 1024, gpu_memory_utilization=0.95).feasible


def test_a_slightly_higher_utilisation_is_tried_first() -> None:
    found = account(QWEN_72B, tp=2, max_model_len=8192, gpu_memory_utilization=0.9)
    assert found.least_change.startswith("It fits with --gpu-memory-utilization 0.9")
    least = float(found.least_change.split()[-1].rstrip("."))
    assert account(QWEN_72B, tp=2, max_model_len=8192, gpu_memory_utilization=least).feasible
    assert not account(QWEN_72B, tp=2, max_model_len=8192, gpu_memory_utilization=least - 0.01).feasible


def test_a_start_up_that_fails_in_its_warm_up_says_so_and_asks_for_a_lower_utilisation() -> None:
    found = account("openai/gpt-oss-20b", gpu_memory_utilization=0.95, max_model_len=8192)
    assert not found.feasible and "sequences lacks" in found.reasons[0]
    assert found.least_change == "It fits with --gpu-memory-utilization 0.94."
    assert account("openai/gpt-oss-20b", gpu_memory_utilization=0.94, max_model_len=8192).feasible
    # Its logits are as many, but nothing of routed experts stands beside them; and up to 0.16 profiling took as much.
    assert account("google/gemma-2-27b-it", gpu_memory_utilization=0.95, max_model_len=8192).feasible
    assert account("openai/gpt-oss-20b", version="0.14.0", gpu_memory_utilization=0.95, max_model_len=8192).feasible


@pytest.mark.parametrize(
    ("model_id", "version", "chunked"),
    [
        (LLAMA, "0.5.3", False),  # vllm-project/vllm#6666 came after
        (LLAMA, "0.6.4", True),
        ("moonshotai/Kimi-VL-A3B-Instruct", "0.7.3", False),  # vllm-project/vllm#8425
        ("google/gemma-2-27b-it", "0.7.3", False),
        ("moonshotai/Kimi-VL-A3B-Instruct", "0.9.0", True),
    ],
)
def test_chunked_prefill_switches_itself_on_where_the_version_does_it(
    model_id: str, version: str, chunked: bool
) -> None:
    card = accelerators()["H100-SXM"]
    found = resolve_settings("vllm", version, card, model(model_id), profile(), {"max_model_len": 65_536})
    assert found.chunked_prefill is chunked


def test_settings_resolve_by_version_and_memory_class_and_say_how_they_are_known() -> None:
    architecture = model(LLAMA)

    def limits(gpu: str, version: str) -> tuple[int, int]:
        found = resolve_settings("vllm", version, accelerators()[gpu], architecture, profile())
        return found.max_num_seqs, found.max_num_batched_tokens

    assert limits("H100-SXM", "0.19.0") == (1024, 8192)
    assert limits("A100-80GB-SXM", "0.19.0") == (256, 2048)
    assert limits("L40S", "0.19.0") == (256, 2048)
    assert limits("B200-SXM", "0.32.0") == (1024, 16_384)
    resolved = resolve_settings("vllm", "0.19.0", accelerators()["H100-SXM"], architecture, profile())
    assert resolved.provenance["max_num_seqs"][0] == "cited"
    assert resolved.provenance["max_model_len"][0] == "verified"


def test_an_unknown_engine_or_setting_is_one_clear_line() -> None:
    h100, architecture = accelerators()["H100-SXM"], model(LLAMA)
    with pytest.raises(UnknownEngine, match="it knows"):
        resolve_settings("llamacpp", "1", h100, architecture, profile())
    with pytest.raises(UnknownEngine, match="has no setting 'magic'"):
        resolve_settings("vllm", "0.19.0", h100, architecture, profile(), {"magic": 1})
    with pytest.raises(UnknownEngine, match="gpu_memory_utilization"):
        resolve_settings("vllm", "0.19.0", h100, architecture, profile(), {"gpu_memory_utilization": 7})
    with pytest.raises(UnknownEngine, match="kv_cache_dtype"):
        resolve_settings("vllm", "0.19.0", h100, architecture, profile(), {"kv_cache_dtype": "int3"})


MODEL_IDS = st.sampled_from(
    [
        LLAMA,
        "google/gemma-3-12b-it",
        "openai/gpt-oss-20b",
        "Qwen/Qwen3.5-27B",
        "moonshotai/Kimi-Linear-48B-A3B-Instruct",
        "meta-llama/Llama-4-Scout-17B-16E-Instruct",
        "deepseek-ai/DeepSeek-V2-Lite-Chat",
        "nvidia/Nemotron-H-56B-Base-8K",
    ]
)
ENGINES = st.sampled_from(
    [("vllm", "0.6.6"), ("vllm", "0.11.0"), ("vllm", "0.24.0"), ("sglang", "0.5.10"), ("tensorrt-llm", "1.0")]
)


@settings(max_examples=60, deadline=None)
@given(MODEL_IDS, ENGINES, st.floats(24, 280), st.floats(0.1, 40), st.sampled_from([2048, 8192]))
def test_more_memory_never_holds_fewer_tokens(
    model_id: str, engine: tuple[str, str], visible: float, more: float, length: int
) -> None:
    small, large = (Accelerator("card", size, 1.0, 1.0) for size in (visible, visible + more))
    fixed = {
        "max_num_seqs": 256,
        "max_num_batched_tokens": 2048,
        "max_model_len": length,
        "gpu_memory_utilization": 0.9,
    }
    # Overheads are held to one memory class: the profile has two for cards below and above 70 GiB.
    if (visible < 70) != (visible + more < 70):
        return
    less = account(model_id, small, *engine, **fixed)  # type: ignore[arg-type]
    greater = account(model_id, large, *engine, **fixed)  # type: ignore[arg-type]
    assert greater.kv_budget_tokens >= less.kv_budget_tokens
    assert greater.max_concurrency(length) >= less.max_concurrency(length)
    assert greater.feasible or not less.feasible


@settings(max_examples=60, deadline=None)
@given(MODEL_IDS, ENGINES, st.integers(1, 8000), st.integers(0, 8000))
def test_longer_requests_never_fit_in_larger_number(
    model_id: str, engine: tuple[str, str], length: int, more: int
) -> None:
    found = account(model_id, "H200-SXM", *engine, max_model_len=8192)
    assert found.max_concurrency(length) >= found.max_concurrency(length + more)


@given(st.floats(0, 5))
def test_safety_comes_out_of_the_budget(safety: float) -> None:
    lost = account(LLAMA).kv_budget_gib_per_gpu - account(LLAMA, safety_gib=safety).kv_budget_gib_per_gpu
    assert lost == pytest.approx(safety, abs=1e-9)


def test_catalogue_files_have_the_columns_of_their_tables() -> None:
    for file, name in (("accelerators.csv", "accelerator"), ("engines.csv", "engine_profile")):
        with (CATALOG / file).open(newline="", encoding="utf-8") as lines:
            rows = list(csv.DictReader(lines))
        columns = table(name).columns
        assert list(rows[0]) == [column.name for column in columns]
        for column in columns:
            if column.allowed:
                assert {row[column.name] for row in rows} <= {*column.allowed, *([""] if column.nullable else [])}
            if not column.nullable and column.type == "VARCHAR":
                assert all(row[column.name] for row in rows), (file, column.name)
        keys = [tuple(row[key] for key in table(name).key) for row in rows]
        assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(
    ("name", "gpu_id"),
    [
        ("H100", "H100-SXM"),
        ("H100-80GB", "H100-SXM"),
        ("H100 80GB SXM", "H100-SXM"),
        ("NVIDIA H100 80GB HBM3", "H100-SXM"),
        ("L40S", "L40S"),
        ("A100 80GB", "A100-80GB-SXM"),
        ("rtx 4090", "RTX-4090"),
        ("B200", "B200-SXM"),
        ("V100", None),
        ("H1000", None),
    ],
)
def test_a_gpu_goes_by_many_names(name: str, gpu_id: str | None) -> None:
    assert resolve_gpu(name, accelerators()) == gpu_id


def test_every_alias_names_an_accelerator_of_the_catalogue() -> None:
    with (CATALOG / "accelerators.csv").open(newline="", encoding="utf-8") as file:
        assert set(ALIASES.values()) <= {row["gpu_id"] for row in csv.DictReader(file)}
