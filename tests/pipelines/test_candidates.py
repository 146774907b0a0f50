"""What the configurations of a service are called."""

from __future__ import annotations

from pipelines.planning.candidates import named
from pipelines.workspace import EngineSpec


def test_engines_that_differ_in_a_setting_alone_have_names_of_their_own() -> None:
    one, other = EngineSpec(name="vllm", version="0.19.0"), EngineSpec(name="sglang", version="0.5.9")
    few = EngineSpec(name="vllm", version="0.19.0", max_num_seqs=64)
    assert list(named([one, other])) == ["vllm@0.19.0", "sglang@0.5.9"]
    assert list(named([few, other])) == ["vllm@0.19.0", "sglang@0.5.9"], "an engine alone is named by its version"
    assert named([one, few, other, one]) == {
        "vllm@0.19.0 / max_num_seqs=default": one,
        "vllm@0.19.0 / max_num_seqs=64": few,
        "sglang@0.5.9": other,
    }
