"""Measured step times from a file to the figures that rest on them: plan, replay, size; each says what it used."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from estimator.bounds import decode_step_seconds, prefill_seconds
from estimator.step_time import DecodePoint, PrefillPoint, Profile, carried
from pipelines.commands.plan import run as plan
from pipelines.commands.size import answer
from pipelines.commands.size_page import tell
from pipelines.planning.catalog import shipped
from pipelines.planning.profile_sources import measured_configuration, with_measured, workspace_profiles
from pipelines.planning.profiles import Configuration, profile_for, unused
from pipelines.planning.replaying import Fleet, Load, configuration, workload_of
from pipelines.planning.sizing import Ask, Sized, size
from pipelines.sources import aiconfigurator
from pipelines.sources.base import SourceError
from pipelines.sources.models import read_model
from pipelines.sources.profiles import read_profile
from pipelines.workspace import Place, WorkspaceError
from tests.pipelines.conftest import Capsheet, Small
from warehouse.errors import CapsheetError

MODEL = "meta-llama/Llama-3.1-8B-Instruct"
ASK = Ask(MODEL, "H100-SXM", "vllm@0.19.0", max_model_len=8192)
ENTRY = """\
profiles:
  - source: steps.csv
    model: meta-llama/Llama-3.1-8B-Instruct
    accelerator: H100-SXM
    engine: vllm
    version: 0.19.0
    precision: bf16
"""


def table(folder: Path, times: float = 1.0) -> Path:
    """A table of step times about `times` what a H100 takes for an 8B model, up to 512 sequences."""
    lines = ["phase,sequences,context_tokens,prompt_tokens,time_ms"]
    for batch in (1, 16, 64, 512):
        lines += [f"decode,{batch},{c},,{times * (6.5 + 0.02 * batch + 4.5e-5 * batch * c)}" for c in (200, 1000, 4000)]
    lines += [f"prefill,,,{tokens},{12 + times * (8 + 0.022 * tokens)}" for tokens in (64, 512, 2048, 8000)]
    file = folder / "steps.csv"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def sized(**options: Any) -> Sized:
    ask = replace(ASK, **options)
    return size(ask, read_model(MODEL, offline=True, folder=Path()), shipped())


def test_a_plan_takes_measured_times_first_and_says_so(small: Small, published: Small) -> None:
    table(small.folder, times=2)
    small.tail = f"offline: true\n{ENTRY}"
    plan(small.write().folder, json=True)
    chosen, before = (
        {row["gpu_id"]: row for row in each.rows("SELECT * FROM plan_candidate WHERE tp = 1")}
        for each in (small, published)
    )
    measured = chosen["H100-SXM"]
    assert measured["step_time_source"].startswith("measured by steps.csv: decode 1-512 sequences x 200-4,000 tokens")
    assert measured["step_time_source"].endswith("; physics elsewhere")
    assert measured["goodput_rps_per_replica"] < 0.9 * before["H100-SXM"]["goodput_rps_per_replica"]
    assert measured["zero_load_tpot_ms"] > 1.3 * before["H100-SXM"]["zero_load_tpot_ms"]
    # The other accelerator has no profile, and nothing about it changes, unless it is the better choice now.
    now, then = ({**each["L40S"], "status": "", "reason": ""} for each in (chosen, before))
    assert now == then and now["step_time_source"].startswith("physics x")
    rows = small.rows("SELECT phase, count(*) AS n, any_value(label) AS label FROM step_profile GROUP BY 1 ORDER BY 1")
    assert [(row["phase"], row["n"], row["label"]) for row in rows] == [
        ("decode", 12, "measured"),
        ("prefill", 4, "measured"),
    ]
    [file] = small.rows("SELECT * FROM source_file WHERE kind = 'profile'")
    assert (file["source_file"], file["format"], file["rows_kept"]) == ("steps.csv", "csv", 16)
    [inputs] = [json.loads(row["inputs_json"]) for row in small.rows("SELECT inputs_json FROM plan")]
    assert inputs["steps.csv"] == file["sha256"]
    checks = {row["check_name"]: row for row in small.rows("SELECT * FROM plan_check")}
    used = next(row for name, row in checks.items() if name.startswith("profile steps.csv: "))
    assert used["passed"] and used["observed"] == "1 of the candidates"
    [winner] = [row for row in chosen.values() if row["status"] == "chosen"]
    numbers = {row["number"]: row for row in small.rows("SELECT * FROM plan_number")}
    tpot = numbers["chat.zero_load_tpot_ms"]
    assert tpot["value"] == pytest.approx(winner["zero_load_tpot_ms"])
    on_profile = winner["gpu_id"] == "H100-SXM"
    assert (tpot["label"], tpot["source"]) == (("measured", "steps.csv") if on_profile else ("estimated", "step model"))
    assert (
        json.loads(numbers["chat.goodput_rps_per_replica"]["inputs_json"])["step_times"] == winner["step_time_source"]
    )
    [told] = small.rows("SELECT * FROM plan_assumption WHERE name = 'step_times'")
    assert told["text"] == winner["step_time_source"]


def test_a_profile_that_no_candidate_is_of_is_named_with_what_differs() -> None:
    of = Configuration(MODEL, "H100-SXM", "vllm", "0.19.0", 1, "bf16")
    row = {"profile": "steps.csv", **{name: getattr(of, name) for name in of.__dataclass_fields__}}
    [(name, uses, unlike)] = unused([row], [replace(of, tp=2), replace(of, tp=4, gpu_id="L40S")])
    assert (uses, unlike) == (0, "tp") and name == f"steps.csv: {MODEL} on H100-SXM / TP1 / bf16 / vllm@0.19.0"
    assert unused([row], [replace(of, engine_version="0.19")])[0][1] == 1


def test_of_two_profiles_the_better_known_points_count(tmp_path: Path) -> None:
    wanted = Configuration(MODEL, "H100-SXM", "vllm", "0.19.0", 1, "bf16")
    base = {name: getattr(wanted, name) for name in wanted.__dataclass_fields__}
    base |= {"span_tokens": None, "seen_from": "engine"}
    step = base | {"phase": "decode", "sequences": 1.0, "context_tokens": 100.0}
    prompt = base | {"phase": "prefill", "prompt_tokens": 100.0, "time_ms": 9.0, "label": "cited", "source": "theirs"}
    cited = step | {"time_ms": 5.0, "label": "cited", "source": "theirs"}
    measured = step | {"time_ms": 7.0, "label": "measured", "source": "ours"}
    found = profile_for([cited, measured, prompt], wanted)
    expected = Profile((DecodePoint(1, 100, 0.007),), (PrefillPoint(100, 0.009, False),), "cited", "ours, theirs")
    assert found == expected
    assert profile_for([cited | {"tp": 2}], wanted) is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("accelerator: H101", "has no accelerator 'H101'. Near it: .*H100-SXM"),
        ("precision: fp3", "fp3"),
        ("model: someone/else", "which no service runs"),
        ("label: sure", "profiles\\[0\\].label"),
        ("tensor_parallel: 0", "profiles\\[0\\].tensor_parallel"),
        ("color: red", "is not a key of this file"),
        ("source: nowhere.csv", "nowhere.csv is not there"),
    ],
)
def test_a_wrong_entry_is_one_line(small: Small, change: str, said: str) -> None:
    table(small.folder)
    key = change.partition(":")[0]
    lines = [line for line in ENTRY.splitlines() if key not in line.partition(":")[0]]
    lines.append(f"    {change}")
    if not lines[1].startswith("  - "):
        lines[1] = "  - " + lines[1].strip()
    small.tail = "offline: true\n" + "\n".join(lines) + "\n"
    with pytest.raises((WorkspaceError, SourceError), match=said) as caught:
        workspace_profiles(Place(small.write().folder))
    assert "\n" not in str(caught.value)


def test_a_file_is_of_one_profile(small: Small) -> None:
    table(small.folder)
    small.tail = f"offline: true\n{ENTRY}{ENTRY.removeprefix('profiles:').lstrip(chr(10))}"
    with pytest.raises(WorkspaceError, match=r"another profile names steps\.csv too"):
        workspace_profiles(Place(small.write().folder))


def test_size_says_measured_where_it_is_and_physics_where_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = table(tmp_path)
    ask = replace(ASK, isl_tokens=1000, osl_tokens=200, concurrency=64)
    found, plain = (answer(ask, tmp_path, profile=p, offline=True, explain=True) for p in (str(file), None))
    measured = 6.5 + 0.02 * 64 + 4.5e-5 * 64 * 1100
    assert found["calculator"]["decode_step_ms"] == pytest.approx(measured, rel=0.01)
    sources = {step["step"]: (step["label"], step["source"]) for step in found["derivation"]}
    assert sources["decode_step_ms"] == sources["prefill_ms"] == ("measured", str(file))
    assert sources["capacity_rps"][0] == "estimated" and str(file) in sources["capacity_rps"][1]
    assert sum(found["decode_step_by_term_ms"].values()) == pytest.approx(found["calculator"]["decode_step_ms"])
    assert found["step_profile"] == {"label": "measured", "source": str(file)} and plain["step_profile"] is None
    for lang, said in (("en", "where it has points, physics elsewhere"), ("zh", "其余按物理模型")):
        tell(found, lang)
        assert said in " ".join(capsys.readouterr().out.split())
    beyond = answer(
        replace(ask, concurrency=600, max_num_seqs=1024), tmp_path, profile=str(file), offline=True, explain=True
    )
    [step] = [step for step in beyond["derivation"] if step["step"] == "decode_step_ms"]
    assert (step["label"], step["source"]) == ("estimated", f"step model: physics, outside of {file}")


def test_a_zero_load_first_token_is_the_one_that_was_measured(tmp_path: Path) -> None:
    found = answer(replace(ASK, isl_tokens=2048, osl_tokens=1), tmp_path, profile=str(table(tmp_path)), offline=True)
    assert found["calculator"]["zero_load_ttft_ms"] == pytest.approx(12 + 8 + 0.022 * 2048, rel=1e-3)


def test_a_profile_of_another_configuration_is_refused(tmp_path: Path) -> None:
    file = table(tmp_path, times=0.02)
    with pytest.raises(CapsheetError, match="its unit, model or accelerator is another"):
        answer(ASK, tmp_path, profile=str(file), offline=True)


def test_replay_takes_the_named_profile_or_the_workspaces(small: Small, capsheet: Capsheet, tmp_path: Path) -> None:
    file = table(small.folder, times=1.6)
    load = ("--isl", "500", "--osl", "100", "--rate", "5", "--requests", "200", "--json")
    alone = ("replay", "--model", MODEL, "--gpu", "H100-SXM", "--engine", "vllm@0.19.0", "--offline", *load)
    plain = json.loads(capsheet(*alone).stdout)
    named = json.loads(capsheet(*alone, "--profile", str(file)).stdout)
    assert named["percentiles_ms"]["tpot"]["mean"] > 1.3 * plain["percentiles_ms"]["tpot"]["mean"]
    assert named["step_time_source"].startswith(f"measured by {file}") and plain["step_time_source"].startswith(
        "physics"
    )
    small.tail = f"offline: true\n{ENTRY}"
    small.write()
    own = json.loads(capsheet("replay", "--workspace", str(small.folder), *load).stdout)
    assert own["step_time_source"].startswith("measured by steps.csv")


def has_aiconfigurator() -> bool:
    """Whether the package has a wheel for this platform; where it has none, the message is what there is to test."""
    if find_spec("aiconfigurator_core") is None:
        with pytest.raises(SourceError, match="is not installed"):
            with_measured(sized(), aiconfigurator.NAME)
        return False
    return True


def test_aiconfigurators_estimates_are_a_cited_profile() -> None:
    if not has_aiconfigurator():
        return
    found = with_measured(sized(), aiconfigurator.NAME)
    assert found.measured is not None and found.measured.label == "cited"
    version = metadata.version(aiconfigurator.PACKAGE)
    assert found.measured.source.startswith(f"{aiconfigurator.PACKAGE} {version}, h100_sxm vllm ")
    load = workload_of(Load(isl_tokens=1000, osl_tokens=200, rate_rps=1.0, requests=10))
    made = configuration(found, load, shipped(), Fleet())
    taken = measured_configuration(made, found, load)
    held = carried(taken.step)
    assert held is not None and held.decodes(64, 2000) and held.prompts(2048)
    # Two models of one step, of different makers: near each other, and the profile is the one that is taken.
    asked = {(x.sequences, x.context_tokens): x.seconds for x in found.measured.decode}
    assert decode_step_seconds(taken.step, 64, 2048) == pytest.approx(asked[64, 2048], rel=1e-9)
    assert decode_step_seconds(taken.step, 64, 2048) == pytest.approx(decode_step_seconds(made.step, 64, 2048), rel=0.4)
    prompts = {x.tokens: x.seconds for x in found.measured.prefill}
    assert prefill_seconds(taken.step, 1024, 8192) == pytest.approx(prompts[1024], rel=1e-9)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"gpu": "T4"}, "AIConfigurator has no timings of vllm on T4"),
        ({"quantization": "int8"}, "AIConfigurator is not asked for precision 'int8'"),
    ],
)
def test_what_aiconfigurator_does_not_know_is_said(options: dict[str, Any], said: str) -> None:
    if not has_aiconfigurator():
        return
    with pytest.raises(SourceError, match=said) as caught:
        with_measured(sized(**options), aiconfigurator.NAME)
    assert "\n" not in str(caught.value)


def test_without_the_extra_the_message_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aiconfigurator, "PACKAGE", "aiconfigurator-that-is-not-there")
    with pytest.raises(
        SourceError, match=r"is not installed. Install it with `pip install 'capsheet\[aiconfigurator\]'`"
    ):
        with_measured(sized(), aiconfigurator.NAME)


def test_aiconfigurator_needs_the_models_config(tmp_path: Path) -> None:
    of = {"model_id": MODEL, "gpu_id": "H100-SXM", "engine": "vllm", "engine_version": "0.19.0", "tp": 1, "dp": 1}
    of |= {"ep": 1, "precision": "bf16"}
    if not has_aiconfigurator():
        return
    with pytest.raises(SourceError, match="needs the model's config"):
        read_profile(tmp_path, aiconfigurator.NAME, of)
    with pytest.raises(SourceError, match="does not know"):
        read_profile(tmp_path, aiconfigurator.NAME, of, config={"architectures": ["NoSuch"]})
