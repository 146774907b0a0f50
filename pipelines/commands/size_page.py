"""What `capsheet size` shows a person: a page of tables at most 100 columns wide, in English or Chinese.

Belongs here: layout. Does not: words (`size_texts`), figures (`pipelines.planning`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pipelines.commands.show import cell
from pipelines.commands.size_texts import heading, sentence, word

WIDTH = 100


def tell(found: Mapping[str, Any], lang: str) -> None:
    """Print the answer."""
    console = Console(highlight=False)
    console = Console(width=min(console.width, WIDTH) if console.is_terminal else WIDTH, highlight=False)
    _verdict(console, found, lang)
    _table(
        console,
        "account",
        ("term", "value", "unit", "label", "note"),
        [
            (word(t["term"], lang), t["value"], word(t["unit"], lang), word(t["label"], lang), word(t["note"], lang))
            for t in found["terms"]
        ],
        lang,
    )
    _calculator(console, found, lang)
    _fleet(console, found["fleet"], lang)
    settings = [
        (row["setting"], row["value"], word(row["label"], lang), word(row["source"], lang)) for row in found["settings"]
    ]
    _table(console, "settings", ("setting", "value", "label", "source"), settings, lang)
    if found["compatibility"]:
        notes = [(note["note"], word(note["label"], lang)) for note in found["compatibility"]]
        _table(console, "notes", ("note", "label"), notes, lang)
    if "derivation" in found:
        _derivation(console, found, lang)
    console.print(Text(heading("command", lang), style="bold"))
    console.print(Text(found["launch_command"]), soft_wrap=True)


def _verdict(console: Console, found: Mapping[str, Any], lang: str) -> None:
    gpus = f"{found['gpus_per_replica']} x {found['gpu']}"
    shape = " ".join(f"{name.upper()}{found[name]}" for name in ("tp", "pp", "dp", "ep") if found[name] > 1)
    title = f"{found['model']} · {gpus}{' (' + shape + ')' if shape else ''} · {found['engine']} "
    console.print(Text(title + found["engine_version"], style="bold"))
    console.print(
        Text(
            sentence(
                "parameters",
                lang,
                total=_billions(found["parameters_total"]),
                active=_billions(found["parameters_active"]),
                attention=found["attention"],
                precision=found["precision"],
            )
        )
    )
    if found["feasible"]:
        held = {"held": found["max_concurrency"], "length": found["max_model_len"], "tokens": found["kv_budget_tokens"]}
        console.print(Text(sentence("fits", lang, **held)))
    else:
        console.print(Text(sentence("not", lang, why="; ".join(word(reason, lang) for reason in found["reasons"]))))
        console.print(Text(word(found["least_change"], lang)))
    for warning in found["warnings"]:
        console.print(Text(sentence("warning", lang, why=word(warning, lang))))
    if found["assumed"]:
        console.print(Text(sentence("assumed", lang, what="; ".join(word(item, lang) for item in found["assumed"]))))


def _billions(count: float) -> str:
    return f"{count / 1e9:,.3g} B" if count < 1e12 else f"{count / 1e12:,.3g} T"


def _calculator(console: Console, found: Mapping[str, Any], lang: str) -> None:
    if found["calculator_missing"]:
        console.print(Text(word(found["calculator_missing"], lang)))
        return
    rows = [
        (
            word(name, lang),
            word(value, lang) if isinstance(value, str) else value,
            word(found["units"][name], lang),
            word(found["labels"][name], lang),
        )
        for name, value in found["calculator"].items()
    ]
    _table(console, "calculator", ("figure", "value", "unit", "label"), rows, lang)


def _fleet(console: Console, fleet: Sequence[Mapping[str, Any]], lang: str) -> None:
    rows = [
        (
            word(row["tier"], lang),
            row["requests_needed"],
            row["gpus"] if row["gpus"] is not None else heading("none", lang),
            row["weights_gib_per_gpu"],
            row["kv_budget_gib_per_gpu"],
            row["max_concurrency"],
        )
        for row in fleet
    ]
    _table(console, "fleet", ("tier", "requests", "gpus", "weights", "cache", "held"), rows, lang)


def _derivation(console: Console, found: Mapping[str, Any], lang: str) -> None:
    console.print(Text(heading("derivation", lang), style="bold"))
    for step in found["derivation"]:
        value = f"{step['step']} = {cell(step['value'])} {step['unit']} [{word(step['label'], lang)}]"
        console.print(Text(value))
        inputs = ", ".join(f"{name} {cell(value)}" for name, value in step["inputs"].items())
        for name, text in (("formula", step["formula"]), ("inputs", inputs), ("source", step["source"])):
            if text:
                console.print(Text(f"  {heading(name, lang)}: {text}"))
    rows = [
        (row["name"], row["value"], f"{cell(row['usual_low'])} - {cell(row['usual_high'])}", row["unit"], row["source"])
        for row in found["coefficients"]
    ]
    _table(console, "coefficients", ("figure", "value", "usual", "unit", "source"), rows, lang)


def _table(console: Console, title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], lang: str) -> None:
    """One table; text is shown as it is, never as markup."""
    table = Table(title=heading(title, lang), box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
    for at, name in enumerate(columns):
        numeric = all(isinstance(row[at], int | float | type(None)) for row in rows) or name == "value"
        table.add_column(Text(heading(name, lang)), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell(value)) for value in row))
    console.print(table)
