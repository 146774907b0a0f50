"""Prompts of which a source has the text and not the length.

Belongs here: counting characters, and the lengths that a workspace may declare. Does not: tokenizers, or keeping text:
no prompt goes past this module.
"""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from pipelines.sources.columns import Reading, whole
from pipelines.sources.layout import TraceOptions

_TEXTS = ("text_input", "prompt", "content", "text", "messages", "input", "system", "contents", "parts")


def characters(value: object) -> int:
    """Characters of the text in a prompt, a list of messages or a request's payload; media count nothing."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, list):
        return sum(characters(item) for item in value)
    if isinstance(value, dict):
        return sum(characters(value[key]) for key in _TEXTS if key in value)
    return 0


def estimated(cell: str, options: TraceOptions) -> pl.Expr:
    """Tokens of a cell's characters at the declared `characters_per_token`; NULL where none is declared."""
    if not options.characters_per_token:
        return pl.lit(None, pl.Int64)
    tokens = (pl.col(cell).cast(pl.Float64, strict=False) / options.characters_per_token).ceil()
    return pl.when(tokens > 0).then(tokens).cast(pl.Int64, strict=False)


def answer(cell: str, options: TraceOptions) -> Reading:
    """`osl_tokens` of a cell, or the declared `output_tokens` where it is empty; NULL where none is declared."""
    said = whole("osl_tokens", cell, least=0, required=False)
    if not options.output_tokens:
        return said
    empty = pl.col(cell).is_null()
    return replace(said, value=pl.when(empty).then(pl.lit(options.output_tokens, pl.Int64)).otherwise(said.value))


def lengths_note(options: TraceOptions) -> str:
    """What is done about prompts of which only the text is there, and answers of which nothing is."""
    prompts = (
        f"1 token a {options.characters_per_token:g} characters (declared)"
        if options.characters_per_token
        else "unknown until characters_per_token is declared"
    )
    answers = (
        f"{options.output_tokens:,} tokens (declared)"
        if options.output_tokens
        else "unknown until output_tokens is declared"
    )
    return f"lengths of prompts given as text: {prompts}, of answers that are not given: {answers}"
