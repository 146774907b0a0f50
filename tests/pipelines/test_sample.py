"""The sample: a synthetic day that looks like one, and published measurements as they were published."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from pipelines.sample import SEED, write_sample_inputs
from pipelines.sample.synthetic import ASSISTANT, BLOCK_TOKENS, CHAT, generate_trace
from pipelines.sources import read_observations, read_trace
from tests.conftest import ROOT


@pytest.fixture(scope="module")
def chat() -> pl.DataFrame:
    return generate_trace(SEED, CHAT)


def test_the_same_seed_gives_the_same_day_and_another_seed_another(chat: pl.DataFrame) -> None:
    assert generate_trace(SEED, CHAT).equals(chat)
    assert not generate_trace(SEED + 1, CHAT).equals(chat)


def test_a_day_has_one_broad_peak(chat: pl.DataFrame) -> None:
    assert 60_000 <= chat.height <= 90_000
    hours = chat.group_by(chat["arrival_at"].dt.hour().alias("hour")).len().sort("hour")["len"]
    assert len(hours) == 24
    assert 2 <= hours.max() / hours.mean() <= 3
    assert 12 <= int(hours.arg_max() or 0) <= 16
    assert chat["arrival_at"].is_sorted()


def test_arrivals_are_burstier_than_poisson(chat: pl.DataFrame) -> None:
    busy = chat.filter(chat["arrival_at"].dt.hour().is_between(12, 15))
    minutes = busy.group_by_dynamic("arrival_at", every="1m").agg(pl.len())["len"].to_numpy()
    smooth = np.convolve(minutes, np.ones(15) / 15, mode="same")[10:-10]
    scatter = ((minutes[10:-10] - smooth) ** 2).mean() / minutes.mean()
    assert scatter > 1.5


def test_lengths_are_joint_and_inside_the_services_limits(chat: pl.DataFrame) -> None:
    mean = {
        row["tenant"]: row for row in chat.group_by("tenant").agg(pl.col("isl_tokens", "osl_tokens").mean()).to_dicts()
    }
    assert mean["rag"]["isl_tokens"] > 3 * mean["chat"]["isl_tokens"]
    assert mean["reasoning"]["osl_tokens"] > 4 * mean["chat"]["osl_tokens"]
    reasoning = chat.filter(pl.col("tenant") == "reasoning")
    assert float(reasoning.select(pl.corr("isl_tokens", "osl_tokens")).item()) > 0.2
    assert int((chat["isl_tokens"] + chat["osl_tokens"]).max()) <= CHAT.max_context_tokens  # type: ignore[arg-type]
    assert chat.select(pl.min_horizontal("isl_tokens", "osl_tokens").min()).item() >= 1


@pytest.mark.parametrize("service", [CHAT, ASSISTANT], ids=lambda service: service.name)
def test_equal_block_ids_mean_an_equal_prefix(service: object) -> None:
    trace = generate_trace(3, service)  # type: ignore[arg-type]
    assert (trace["prefix_hashes"].list.len() == trace["isl_tokens"] // BLOCK_TOKENS).all()
    blocks = (
        trace.select("prefix_hashes", "tenant")
        .with_row_index("request")
        .explode("prefix_hashes")
        .with_columns(
            at=pl.int_range(pl.len()).over("request"),
            before=pl.col("prefix_hashes").shift(1).over("request").fill_null(-1),
        )
        .drop_nulls("prefix_hashes")
    )
    seen = blocks.group_by("prefix_hashes").agg(pl.col("at", "before", "tenant").n_unique())
    assert seen["at"].max() == seen["before"].max() == seen["tenant"].max() == 1


def test_turns_of_a_session_grow_on_one_another_and_sessions_share_system_prompts(chat: pl.DataFrame) -> None:
    turns = (
        chat.filter(pl.len().over("session_id") > 1)
        .group_by("session_id", maintain_order=True)
        .agg("prefix_hashes", "isl_tokens")
    )
    for hashes, lengths in turns.head(300).select("prefix_hashes", "isl_tokens").iter_rows():
        for before, after in pairwise(hashes):
            shared = min(len(before), len(after))
            assert before[:shared] == after[:shared]
        assert lengths == sorted(lengths)
    firsts = chat["prefix_hashes"].list.first().drop_nulls()
    assert firsts.n_unique() < 20


def test_prefixes_are_shared_as_much_as_chat_shares_them(chat: pl.DataFrame) -> None:
    blocks = chat["prefix_hashes"].explode().drop_nulls()
    hit = 1 - blocks.n_unique() / len(blocks)
    assert 0.4 < hit < 0.8


def test_the_sample_inputs_are_small_labelled_and_the_same_bytes_each_time(tmp_path: Path) -> None:
    first = write_sample_inputs(tmp_path)
    content = [file.read_bytes() for file in first]
    assert [file.read_bytes() for file in write_sample_inputs(tmp_path)] == content
    assert [file.name for file in first] == ["chat_trace.parquet", "assistant_trace.parquet", "observations.csv"]
    assert sorted(first) == sorted((tmp_path / "inputs").iterdir()), "nothing half-written is left"
    for file in first[:2]:
        assert file.stat().st_size < 10_000_000
        got = read_trace(file, file.name)
        assert got.rejected.is_empty()
        assert got.detail.startswith(f"synthetic (capsheet's generator, seed {SEED})")


def test_the_published_measurements_are_those_of_the_stage_reports(shared: Path) -> None:
    (shipped,) = read_observations(ROOT / "pipelines" / "sample", "observations.csv")
    assert shipped.rejected.is_empty()
    measured = shared / "data" / "bench" / "inference-perf" / "measured"
    for row in shipped.frame.iter_rows(named=True):
        series, stage = row["observation_id"].split("/")
        served = {
            name: row[name] for name in ("model_id", "gpu_id", "engine", "engine_version", "tp", "precision", "arrival")
        }
        (read,) = read_observations(measured, f"{series}__{stage}_lifecycle_metrics.json", served)
        report = read.frame.row(0, named=True)
        for name in report:
            if re.search(r"_(ms|rps|s|tokens)$", name) and name != "max_num_batched_tokens":
                assert row[name] == pytest.approx(report[name], rel=1e-6), name
        assert row["saturated"] == report["saturated"]
        assert row["requests"] == report["requests"]
    assert set(shipped.frame["observation_id"].str.split("/").list.first()) == {
        "vllm",
        "vllm+batch_size",
        "vllm+chunking_and_prefix_caching",
    }
    assert shipped.frame["source"].str.contains("kubernetes-sigs/inference-perf").all()
