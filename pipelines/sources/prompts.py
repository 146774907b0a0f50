"""Prompts of which a source has the text and not the length.

Belongs here: counting characters, and the estimate that a workspace may declare. Does not: tokenizers, or keeping text:
no prompt goes past this module.
"""

from __future__ import annotations

import polars as pl

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
