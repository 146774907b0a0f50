"""What `capsheet size` shows a person: a page at most 100 columns wide, in English or Chinese.

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
from pipelines.commands.size_texts import heading, sentence, source, word

WIDTH = 100
RULES = ("rule_", "moe_")
"""Figures of the published rules of thumb begin so; the others are the step model's."""


def tell(found: Mapping[str, Any], lang: str) -> None:
    """Print the answer."""
    console = Console(highlight=False)
    console = Console(width=min(console.width, WIDTH) if console.is_terminal else WIDTH, highlight=False)
    _verdict(console, found, lang)
    _account(console, found["terms"], lang)
    if found["calculator_missing"]:
        console.print(Text(word(found["calculator_missing"], lang)))
    elif found["feasible"]:
        own = {name: value for name, value in found["calculator"].items() if not _is_rule(name)}
        _calculator(console, "calculator", own, found, lang)
        _step(console, found, lang)
        rules = {name: value for name, value in found["calculator"].items() if _is_rule(name)}
        _calculator(console, "rules", rules, found, lang)
    _fleet(console, found["fleet"], lang)
    settings = [
        (row["setting"], word(_cell(row["value"]), lang), word(row["label"], lang), source(row["source"], lang))
        for row in found["settings"]
    ]
    _table(console, "settings", ("setting", "value", "label", "source"), settings, lang)
    _notes(console, found, lang)
    if "derivation" in found:
        _derivation(console, found, lang)
    console.print(Text(heading("command" if found["feasible"] else "not_started", lang), style="bold"))
    console.print(Text(found["launch_command"]), soft_wrap=True)


def _is_rule(name: str) -> bool:
    return name.startswith(RULES) or name.endswith("_rule")


def _verdict(console: Console, found: Mapping[str, Any], lang: str) -> None:
    def say(name: str, **values: object) -> None:
        console.print(Text(sentence(name, lang, **values)))

    gpus = f"{found['gpus_per_replica']} x {found['gpu']}"
    shape = " ".join(f"{name.upper()}{found[name]}" for name in ("tp", "pp", "dp", "ep") if found[name] > 1)
    title = f"{found['model']} · {gpus}{' (' + shape + ')' if shape else ''} · {found['engine']} "
    console.print(Text(title + found["engine_version"], style="bold"), soft_wrap=True)
    say(
        "parameters",
        total=_billions(found["parameters_total"]),
        active=_billions(found["parameters_active"]),
        attention=found["attention"],
        precision=found["precision"],
    )
    if found["feasible"]:
        say("fits", held=found["max_concurrency"], length=found["max_model_len"], tokens=found["kv_budget_tokens"])
        _serves(say, found, lang)
    else:
        say("not", why=_listed(found["reasons"], lang))
        console.print(Text(word(found["least_change"], lang)))
    for warning in found["warnings"]:
        say("warning", why=word(warning, lang))
    if found["step_profile"]:
        say("measured", label=word(found["step_profile"]["label"], lang), source=found["step_profile"]["source"])
    if found["assumed"]:
        say("assumed", what=_listed(found["assumed"], lang))


def _listed(texts: Sequence[str], lang: str) -> str:
    return sentence("and", lang).join(word(text, lang) for text in texts)


def _serves(say: Any, found: Mapping[str, Any], lang: str) -> None:
    """The answer most people came for: how many requests of their length, at which rate, and what binds."""
    known = found["calculator"]
    if not known:
        return
    lengths = {"isl": found["isl_tokens"], "osl": found["osl_tokens"], "bound": word(known["bottleneck"], lang)}
    if known["concurrency_limit"] < 1:
        say("serves_none", **lengths)
        return
    rate, first = cell(known["capacity_rps"]), known["first_load_test_requests"]
    say("serves", **lengths, limit=known["concurrency_limit"], rate=rate, first=first)


def _billions(count: float) -> str:
    return f"{count / 1e9:,.3g} B" if count < 1e12 else f"{count / 1e12:,.3g} T"


def _account(console: Console, terms: Sequence[Mapping[str, Any]], lang: str) -> None:
    rows = [
        (word(t["term"], lang), t["value"], word(t["unit"], lang), word(t["label"], lang), word(t["note"], lang))
        for t in terms
    ]
    _table(console, "account", ("term", "value", "unit", "label", "note"), rows, lang)


def _calculator(console: Console, title: str, figures: Mapping[str, Any], found: Mapping[str, Any], lang: str) -> None:
    rows = [
        (
            word(name, lang),
            _missing(name, lang) if value is None else word(value, lang) if isinstance(value, str) else value,
            word(found["units"][name], lang),
            word(found["labels"][name], lang),
        )
        for name, value in figures.items()
    ]
    _table(console, title, ("figure", "value", "unit", "label"), rows, lang)


def _missing(name: str, lang: str) -> str:
    """What stands for a figure without a value: a bound that never binds, or one nobody published."""
    return heading("unbound" if name in {"l_requests", "rule_k_requests"} else "unpublished", lang)


def _step(console: Console, found: Mapping[str, Any], lang: str) -> None:
    """Where a decode step goes, in one sentence."""
    parts = [f"{word(name, lang)} {cell(ms)}" for name, ms in found["decode_step_by_term_ms"].items()]
    whole = cell(found["calculator"]["decode_step_ms"])
    console.print(Text(sentence("step", lang, whole=whole, parts=sentence("and", lang).join(parts)) + "\n"))


def _fleet(console: Console, fleet: Sequence[Mapping[str, Any]], lang: str) -> None:
    rows = [
        (
            word(row["tier"], lang),
            row["requests_needed"],
            _gpus(row, lang),
            row["weights_gib_per_gpu"],
            row["kv_budget_gib_per_gpu"],
            row["max_concurrency"],
        )
        for row in fleet
    ]
    _table(console, "fleet", ("tier", "requests", "gpus", "weights", "cache", "held"), rows, lang)


def _gpus(row: Mapping[str, Any], lang: str) -> Any:
    if row["gpus"] is None:
        return heading("none", lang)
    across = row["nodes_a_group"] > 1
    return sentence("across", lang, gpus=row["gpus"], nodes=row["nodes_a_group"]) if across else row["gpus"]


def _notes(console: Console, found: Mapping[str, Any], lang: str) -> None:
    """One note a paragraph with its label and source: sentences read badly in narrow columns."""
    notes = list(found["compatibility"])
    if found["checkpoint"]:
        notes.insert(0, {"note": found["checkpoint"], "label": "verified", "source": found["source"]})
    if not notes:
        return
    console.print(Text(heading("notes", lang), style="bold"))
    for note in notes:
        known = f"{word(note['label'], lang)}: {source(note['source'], lang)}"
        _indented(console, f"{word(note['note'], lang)} [{known}]", "- ")
    console.print()


def _indented(console: Console, text: str, mark: str = "  ") -> None:
    """A paragraph whose every line begins under its first letter."""
    grid = Table.grid()
    grid.add_column(width=len(mark))
    grid.add_column(overflow="fold")
    grid.add_row(Text(mark), Text(text))
    console.print(grid)


def _derivation(console: Console, found: Mapping[str, Any], lang: str) -> None:
    console.print(Text(heading("derivation", lang), style="bold"))

    def detail(name: str, text: str) -> None:
        if text:
            _indented(console, f"{heading(name, lang)}: {text}")

    for step in found["derivation"]:
        value = _missing(step["step"], lang) if step["value"] is None else _cell(step["value"])
        label = word(step["label"], lang)
        console.print(Text(f"{step['step']} = {value} {step['unit']}".rstrip() + f" [{label}]"))
        detail("formula", word(step["formula"], lang))
        detail("inputs", ", ".join(f"{name} {_cell(value)}" for name, value in step["inputs"].items()))
        detail("source", source(step["source"], lang))
    console.print(Text("\n" + heading("coefficients", lang), style="bold"))
    for row in found["coefficients"]:
        usual = f"{cell(row['usual_low'])} - {cell(row['usual_high'])}"
        console.print(Text(f"{row['name']} = {cell(row['value'])} {row['unit']} [{word(row['label'], lang)}]"))
        detail("meaning", word(row["meaning"], lang))
        detail("default", f"{cell(row['default'])}; {heading('usual', lang)} {usual}")
        detail("source", source(row["source"], lang))
    console.print()


def _table(console: Console, title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], lang: str) -> None:
    """One table; text is shown as it is, never as markup. A table without rows is left out."""
    if not rows:
        return
    table = Table(title=heading(title, lang), box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
    for at, name in enumerate(columns):
        numeric = all(isinstance(row[at], int | float | type(None)) for row in rows) or name in {"value", "gpus"}
        table.add_column(Text(heading(name, lang)), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row))
    console.print(table)


def _cell(value: Any) -> str:
    """Counts with their thousands apart, the rest as everywhere."""
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else cell(value)
