"""The workspace file is read strictly, and every complaint names file, line, key and remedy."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.workspace import FILE_NAME, Place, WorkspaceError

GOOD = """\
workspace: test
services:
  - name: chat
    model: meta-llama/Llama-3.1-8B-Instruct
    slo:
      ttft_p99_ms: 1000
      tpot_p99_ms: 50
    trace:
      source: trace.csv
    candidates:
      accelerators: [H100-SXM]
      engines:
        - {name: vllm, version: 0.19.0}
"""


def place(folder: Path, text: str | bytes) -> Place:
    raw = text if isinstance(text, bytes) else text.encode()
    (folder / FILE_NAME).write_bytes(raw)
    return Place(folder)


def test_a_minimal_workspace_takes_its_defaults(tmp_path: Path) -> None:
    spec = place(tmp_path, GOOD).spec
    assert spec.services[0].slo.targets("ttft") == {99: 1000.0}
    assert spec.services[0].slo.attainment == 0.99
    assert spec.services[0].headroom.failure_replicas == 1
    assert spec.prices.hours_per_month == 730


def test_the_sample_workspace_is_a_valid_workspace(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "pipelines" / "sample" / FILE_NAME).read_bytes()
    assert [service.name for service in place(tmp_path, text).spec.services] == ["chat", "assistant"]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (
            ("ttft_p99_ms: 1000", "ttft_p99_ms: 0"),
            ":6: services[0].slo.ttft_p99_ms is 0: input should be greater than 0",
        ),
        (("ttft_p99_ms: 1000", "ttft_p99_ms: -5"), ":6: services[0].slo.ttft_p99_ms is -5"),
        (("ttft_p99_ms: 1000", "ttft_p99_ms: .nan"), ":6: services[0].slo.ttft_p99_ms is nan"),
        (("ttft_p99_ms: 1000", "ttft_p99_ms: .inf"), ":6: services[0].slo.ttft_p99_ms is inf"),
        (("ttft_p99_ms: 1000", "ttft_p99_ms: fast"), ":6: services[0].slo.ttft_p99_ms is 'fast'"),
        (("      ttft_p99_ms: 1000\n", ""), "no TTFT target: set ttft_p99_ms"),
        (
            ("ttft_p99_ms: 1000", "ttft_p99_ms: 1000\n      ttft_p50_ms: 2000"),
            "ttft_p50_ms (2000) is above ttft_p99_ms",
        ),
        (("    slo:", "    slos:"), "services[0].slo is missing: add it"),
        (("workspace: test", "workspace: test\nwarehose: x"), "warehose is not a key of this file"),
        (("workspace: test", "workspace: ../../etc"), "workspace does not hold: use letters"),
        (("workspace: test", 'workspace: "=cmd()"'), "workspace does not hold: use letters"),
        (("[H100-SXM]", "[]"), "services[0].candidates.accelerators"),
        (("[H100-SXM]", "[H100-SXM, H100-SXM]"), "H100-SXM stands twice"),
        (("[H100-SXM]", "[H100-SXM"), "is not valid YAML"),
        (("tpot_p99_ms: 50", "tpot_p99_ms: 50\n      ttft_p99_ms: 9"), "the key ttft_p99_ms stands twice"),
        (("ttft_p99_ms: 1000", "ttft_p99_ms: yes"), "services[0].slo.ttft_p99_ms is 'yes'"),
        (("ttft_p99_ms: 1000", "ttft_p99_ms: true"), "services[0].slo.ttft_p99_ms is True"),
        (("ttft_p99_ms: 1000", "ttft_p99_ms: 1:30"), "services[0].slo.ttft_p99_ms is '1:30'"),
        (("accelerators: [H100-SXM]", "accelerators: [H100-SXM]\n      tensor_parallel: [010]"), "is '010'"),
        ((GOOD, ""), "is not a mapping of keys"),
        ((GOOD, "- a\n- b\n"), "is not a mapping of keys"),
        ((GOOD, "<!DOCTYPE html><html><body>Sign in</body></html>"), "is not a mapping of keys"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, change: tuple[str, str], complaint: str) -> None:
    with pytest.raises(WorkspaceError) as failure:
        place(tmp_path, GOOD.replace(*change))
    message = str(failure.value)
    assert complaint in message
    assert "\n" not in message
    assert FILE_NAME in message


def test_two_services_of_one_name_are_refused(tmp_path: Path) -> None:
    twice = GOOD + GOOD.split("services:\n")[1]
    with pytest.raises(WorkspaceError, match="two services are called chat"):
        place(tmp_path, twice)


def test_one_trace_read_in_two_ways_is_refused(tmp_path: Path) -> None:
    second = GOOD.split("services:\n")[1].replace("name: chat", "name: other")
    with pytest.raises(WorkspaceError, match="two services read the trace"):
        place(tmp_path, GOOD + second.replace("source: trace.csv", "source: trace.csv\n      spread: uniform"))
    with pytest.raises(WorkspaceError, match="two services read the model"):
        place(tmp_path, GOOD + second.replace("    slo:", "    revision: abc\n    slo:"))


def test_a_folder_without_a_workspace_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError, match="capsheet init"):
        Place(tmp_path)


@pytest.mark.parametrize("raw", [GOOD.encode("utf-16"), b"\xff\xfe\x00", b"\x00" * 64])
def test_another_encoding_is_named_or_refused_in_one_line(tmp_path: Path, raw: bytes) -> None:
    with pytest.raises(WorkspaceError) as failure:
        place(tmp_path, raw)
    assert "\n" not in str(failure.value)


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
)


def places(tree: object, path: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
    """Every position in a tree of mappings and lists."""
    children = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [path, *(found for key, child in children for found in places(child, (*path, key)))]


@settings(max_examples=150, deadline=None)
@given(path=st.sampled_from(places(yaml.safe_load(GOOD))[1:]), value=ANYTHING)
def test_any_value_anywhere_is_accepted_or_refused_in_one_line(
    tmp_path_factory: pytest.TempPathFactory, path: tuple[object, ...], value: object
) -> None:
    tree = yaml.safe_load(GOOD)
    node = tree
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    try:
        place(tmp_path_factory.mktemp("workspace"), yaml.safe_dump(tree, allow_unicode=True))
    except WorkspaceError as error:
        assert "\n" not in str(error)
