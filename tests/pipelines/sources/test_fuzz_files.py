"""Whatever is done to a file as a whole: long first rows, packed streams cut anywhere, times in any unit, odd names."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.sources import SourceError, read_trace
from tests.pipelines.sources.examples import CHAT, EXAMPLES, GATEWAY, SGLANG, Example, otlp, span, write
from tests.pipelines.sources.test_fuzz import attempt, is_one_clear_line, is_sound

JSON = [name for name, example in EXAMPLES.items() if example.name != "t.csv"]
PAST_A_HEAD = 100_000
"""More than detection reads of a file at first; prompts, hashes of long contexts and batches of spans are as long."""


def padded(row: str, characters: int) -> str:
    """A JSON row made longer by a key that no format reads."""
    return json.dumps({"padding": "x" * characters, **json.loads(row)})


@pytest.mark.parametrize("characters", [PAST_A_HEAD, 900_000])
@pytest.mark.parametrize("name", JSON)
def test_a_first_row_longer_than_detection_reads_at_first_changes_nothing(
    tmp_path: Path, name: str, characters: int
) -> None:
    example = EXAMPLES[name]
    straight = read_trace(write(tmp_path, example), example.name, "auto", example.options)
    first, second = example.rows
    for rows in ([padded(first, characters), second], [padded(first, characters), padded(second, characters)]):
        path = write(tmp_path, example, ("\ufeff" + "\r\n".join(rows)).encode())
        got = read_trace(path, example.name, "auto", example.options)
        assert got.format == name
        assert got.frame.equals(straight.frame)
        assert got.rejected.is_empty()


@pytest.mark.parametrize("name", JSON)
def test_a_first_row_of_ten_megabytes_is_one_row_read_or_rejected(tmp_path: Path, name: str) -> None:
    example = EXAMPLES[name]
    rows = [padded(example.rows[0], 10_000_000), *example.rows]
    got = read_trace(write(tmp_path, example, "\n".join(rows).encode()), example.name, "auto", example.options)
    is_sound(got)
    assert (got.format, got.rows_read) == (name, 3)
    assert got.frame.height >= 2


PACKERS = {"gzip": gzip.compress, "zstd": lambda content: pa.compress(content, "zstd", asbytes=True)}


@settings(max_examples=80, deadline=None)
@given(
    name=st.sampled_from(sorted(EXAMPLES)),
    packer=st.sampled_from(sorted(PACKERS)),
    share=st.floats(0, 1),
    tail=st.booleans(),
)
def test_a_packed_file_cut_anywhere_is_read_whole_or_refused(
    tmp_path_factory: pytest.TempPathFactory, name: str, packer: str, share: float, tail: bool
) -> None:
    """Never half of it in silence; and what follows a sound stream is not passed over either."""
    example = EXAMPLES[name]
    packed = PACKERS[packer](example.text.encode() * 40)
    cut = packed[: int(len(packed) * share)] + (b"tail" if tail else b"")
    got = attempt(write(tmp_path_factory.mktemp("fuzz"), example, cut), name, example)
    assert got is None or len(cut) >= len(packed)


SECONDS = 1_785_747_600
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def timed(at: int) -> dict[str, Example]:
    """A file of each format that counts, at one moment in a unit."""
    mooncake = {"timestamp": at, "input_length": 600, "output_length": 4, "hash_ids": [0, 1]}
    moment = span("chat m", 0, 0, CHAT) | {"startTimeUnixNano": str(at), "endTimeUnixNano": str(at)}
    return {
        "capsheet": Example("t.csv", (f"{at},300,40",), "arrival_s,isl_tokens,osl_tokens"),
        "burstgpt": Example("t.csv", (f"{at},m,300,40",), "Timestamp,Model,Request tokens,Response tokens"),
        "azure": Example("t.csv", (f"{at},300,40",), "TIMESTAMP,ContextTokens,GeneratedTokens"),
        "mooncake": Example("t.jsonl", (json.dumps(mooncake),)),
        "otel_genai": Example("t.jsonl", (otlp(moment),)),
        "sglang": Example("t.log", (json.dumps(SGLANG | {"request_received_ts": at, "prefill_finished_ts": None}),)),
        "gateway": Example("t.jsonl", (json.dumps(GATEWAY | {"start_time": at}),)),
    }


OWN_UNITS = {"capsheet": "s", "burstgpt": "s", "mooncake": "ms", "otel_genai": "ns", "sglang": "s"}


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("name", timed(0))
def test_unix_time_in_another_unit_is_never_a_moment_of_this_century(tmp_path: Path, name: str, unit: str) -> None:
    """In its own unit it is the moment, and a gateway's size tells its unit; else it is refused or stands in 1970."""
    example = timed(SECONDS * UNITS[unit])[name]
    got = attempt(write(tmp_path, example), name, example)
    assert got is not None
    found = got.frame["arrival_at"].dt.epoch("s").to_list()
    if name == "gateway" or OWN_UNITS.get(name) == unit:
        assert found == [SECONDS]
    else:
        assert all(moment < 10**8 for moment in found)
        assert got.rejected.height == 1 - len(found)


@pytest.mark.parametrize(
    "name", ["a\nb.csv", "a\rb.csv", "a\x1b[31mb.csv", "a\u202eb.csv", "a\u2028b.csv", "a\x07.csv"]
)
def test_a_name_that_does_not_print_makes_no_second_line_of_a_message(tmp_path: Path, name: str) -> None:
    for content in (b"a,b\n1,2\n", b"", b"<html>", b"\xff\xfe\x00"):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(SourceError) as caught:
            read_trace(tmp_path / name, name)
        is_one_clear_line(str(caught.value))
        assert str(caught.value).isprintable()


def test_lines_that_end_in_carriage_returns_alone_are_said_to(tmp_path: Path) -> None:
    for name in ("azure", "burstgpt", "litellm", "capsheet"):
        content = EXAMPLES[name].text.replace("\n", "\r").encode()
        with pytest.raises(SourceError, match=r"carriage returns alone: save it with line feeds\.$"):
            read_trace(write(tmp_path, EXAMPLES[name], content), "t.csv")
