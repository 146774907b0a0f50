"""What may be asked of `capsheet size`, and what cannot be: one clear line, from anyone, anywhere."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.commands.size import model_folder, run
from pipelines.planning.rules_of_thumb import read_coefficients
from tests.pipelines.sizing import CONFIG, FIGURES, LLAMA, config_file, sized
from warehouse.errors import CapsheetError


def capsheet(*words: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pipelines", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False, timeout=120)


def test_a_tensor_parallel_size_the_engine_refuses_is_one_line_for_people_and_a_reason_for_machines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = sized(tp=3)
    assert said["feasible"] is False and "TP 3 does not divide 32 attention heads" in said["reasons"]
    assert 3 not in said["accepted_tp"]
    options = {"model": LLAMA, "gpu": "H100", "tp": 3}
    with pytest.raises(CapsheetError, match="It accepts 1, 2, 4, 8"):
        run(options, coefficients=[], offline=True, lang="en", explain=False, json=False)
    assert capsys.readouterr().out == ""


def test_a_model_that_is_not_wholly_understood_gets_no_figure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = config_file(tmp_path, model_type="never_seen_before", moon_cache_layers=7)
    said = sized(str(file))
    assert said["unaccounted"] and said["feasible"] is False
    assert all(said[name] is None for name in FIGURES)
    assert said["launch_command"] == "" and said["calculator"] == {} and said["fleet"] == []
    options = {"model": str(file), "gpu": "H100"}
    with pytest.raises(CapsheetError, match="no figure would be right"):
        run(options, coefficients=[], offline=True, lang="en", explain=False, json=False)
    run(options, coefficients=[], offline=True, lang="en", explain=False, json=True)
    assert json.loads(capsys.readouterr().out)["reasons"]


@pytest.mark.parametrize(
    ("changes", "hint"),
    [
        ({"gpu": "Z9000"}, "no accelerator"),
        ({"engine": "llama.cpp"}, "no engine"),
        ({"engine": "vllm@newest"}, "no version"),
        ({"engine": "vllm@"}, "no version"),
        ({"quantization": "fp3"}, "--quantization"),
        ({"kv_cache_dtype": "fp3"}, "--kv-cache-dtype"),
        ({"gpu_memory_utilization": 1.5}, "--gpu-memory-utilization"),
        ({"gpu_memory_utilization": math.nan}, "--gpu-memory-utilization"),
        ({"pp": 99}, "99"),
        ({"ep": 2}, "no experts"),
        ({"isl_tokens": 4000, "osl_tokens": 4000}, "beyond --max-model-len"),
        ({"isl_tokens": 4096}, "--isl 4,096 makes a request of at least 4,097"),
        ({"tpot_ms": math.inf}, "--tpot-ms"),
        ({"ttft_ms": math.nan}, "--ttft-ms"),
        ({"dp": 10**9}, "accelerators a replica"),
        ({"tp": 10**400}, "--tp"),
        ({"concurrency": 10**30}, "--concurrency"),
        ({"max_num_seqs": 10**30}, "--max-num-seqs"),
        ({"engine": "vllm0.11"}, "no engine"),
        ({"engine": "vllm@1e9"}, "no version"),
        ({"gpu": "8xH100"}, "--gpu H100-SXM --tp 8"),
        ({"gpu": "H100 x 8"}, "--gpu H100-SXM --tp 8"),
        ({"gpu": "Ascend 910C"}, "without its memory"),
        ({"gpu": "V100"}, "V100-SXM2-32GB"),
        ({"gpu": ""}, "It has A10"),
        ({"model": "~nobody-of-that-name/model"}, "no such home folder"),
        ({"model": " "}, "no model is named"),
        ({"model": "https://example.org/lab/model"}, "neither a path"),
        ({"coefficients": {"dense_read_factor": 0.5}}, "at least 1"),
    ],
)
def test_what_cannot_be_is_one_clear_line(changes: dict[str, Any], hint: str) -> None:
    with pytest.raises(CapsheetError) as failure:
        sized(**changes)
    assert hint in str(failure.value)
    assert "\n" not in str(failure.value) and len(str(failure.value)) < 1200


@pytest.mark.parametrize("spelt", ["vllm@0.11.0", "vllm 0.11.0", "vllm==0.11.0", "vLLM:v0.11.0", "vllm@0.11.0+cu128"])
def test_an_engine_and_its_version_go_by_many_spellings_and_none_loses_the_version(spelt: str) -> None:
    said = sized(engine=spelt)
    assert (said["engine"], said["engine_version"]) == ("vllm", "0.11.0")
    assert not any("newest" in item for item in said["assumed"])


def test_an_instance_type_stands_for_its_accelerator() -> None:
    assert sized(gpu="p5.48xlarge")["gpu"] == "H100-SXM"


@pytest.mark.parametrize("length", [1, 2, 3, 4, 17])
def test_the_shortest_contexts_are_sized_with_what_fits_in_them(length: int) -> None:
    assert sized(max_model_len=length)["calculator"]["k_requests"] > 0


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<!DOCTYPE html><html><body>Log in</body></html>",
        b'{"model_type": "llama", "hidden_size": 10',
        b"[1, 2]",
        b'{"error": "gated"}',
        b'{"model_type": "llama", "hidden_size": NaN, "num_hidden_layers": 2, "num_attention_heads": 2}',
        b"\x00\x01\x02\x03",
        b'{"model_type": "llama", "hidden_size": "wide", "num_hidden_layers": 2, "num_attention_heads": 2}',
        b'{"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 1e400, "num_attention_heads": 2}',
    ],
)
def test_a_file_that_is_no_config_is_one_clear_line(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(content)
    with pytest.raises(CapsheetError) as failure:
        sized(str(file))
    assert "config.json" in str(failure.value) and "\n" not in str(failure.value)


@pytest.mark.parametrize("pair", ["nope=1", "safety_factor", "safety_factor=", "safety_factor=nan",
                                  "prefill_utilisation=0", "prefill_utilisation=1.1", "safety_gib=-1"])  # fmt: skip
def test_a_coefficient_that_cannot_be_is_refused(pair: str) -> None:
    with pytest.raises(CapsheetError, match="--coefficient"):
        read_coefficients([pair])


def test_a_user_without_a_home_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "expanduser", lambda self: (_ for _ in ()).throw(RuntimeError("no home")))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert model_folder("org/name").name.startswith("capsheet-")


def test_the_command_works_from_any_folder_and_leaves_nothing_there(tmp_path: Path) -> None:
    done = capsheet("size", LLAMA, "--gpu", "H100", "--max-model-len", 4096, "--offline", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["feasible"] is True
    assert list(tmp_path.iterdir()) == []


def test_the_command_fails_with_one_line_and_never_a_traceback(tmp_path: Path) -> None:
    config_file(tmp_path, hidden_size="<script>")
    done = capsheet("size", "config.json", "--gpu", "H100", cwd=tmp_path)
    assert done.returncode == 1 and done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1 and "hidden_size" in done.stderr
    assert capsheet("size", LLAMA, "--gpu", "H100", "--tp", 0, cwd=tmp_path).returncode == 2


MUTATIONS = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 10**12), st.floats(allow_nan=True), st.text(max_size=6),
    st.lists(st.integers(0, 3), max_size=3), st.just({}), st.just(...),
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    changes=st.dictionaries(st.sampled_from(sorted(CONFIG)), MUTATIONS, max_size=3),
    tp=st.sampled_from([1, 2, 3, 8]),
    engine=st.sampled_from(["vllm@0.6.3", "vllm@0.19.0", "vllm@99.9", "sglang@0.5.4", "tensorrt-llm@1.0"]),
    gpu=st.sampled_from(["H100", "T4", "RTX 3090", "B200", "MI300X"]),
)
def test_any_config_is_sized_or_refused_in_one_line(
    tmp_path_factory: pytest.TempPathFactory, changes: dict[str, Any], tp: int, engine: str, gpu: str
) -> None:
    file = config_file(tmp_path_factory.mktemp("fuzz"), **changes)
    try:
        said = sized(str(file), gpu, engine=engine, tp=tp, max_model_len=None)
    except CapsheetError as refusal:
        assert "\n" not in str(refusal)
        return
    assert said["feasible"] in (True, False)
    assert said["feasible"] or said["reasons"]
