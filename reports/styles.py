"""How cells look: one calm palette, named styles, and number formats by unit.

Colours follow FAST: blue inputs, black formulas, green links to another sheet. Belongs here: appearance only.
"""

from __future__ import annotations

from openpyxl import Workbook
from openpyxl.formatting.rule import CellIsRule, ColorScaleRule, FormulaRule, Rule
from openpyxl.styles import Alignment, Border, Font, NamedStyle, PatternFill, Side

FONT = "Calibri"
INK, MUTED, BLUE, GREEN, RED, AMBER = "1F2937", "5B6472", "0000FF", "00702B", "B3261E", "8A5A00"
HEAD_FILL, INPUT_FILL, RULE_LINE = "E3E9F1", "FFF8DC", "C4CBD6"
HEAT_LOW, HEAT_HIGH = "FFFFFF", "8FB3DC"
SERIES = ("2F6DB5", "E08A1E", "4C9A6A", "8C6BB1", "7FB5D9", "6B7F99", "C2A83E", "B8554E")
"""Colours of chart series, told apart in grey print and by colour-blind readers."""

_THIN = Side(style="thin", color=RULE_LINE)
_FIRM = Side(style="medium", color=INK)

GOOD_WORDS, WARN_WORDS, BAD_WORDS = ("ok", "passed", "meets"), ("warning",), ("FAILED", "differs", "misses")
"""The workbook's own status words; conditional formats and counts look for exactly these."""


def _style(
    name: str, *, size: float = 10, bold: bool = False, color: str = INK, fill: str = "", top: Side | None = None,
    bottom: Side | None = None, wrap: bool = False, horizontal: str | None = None, italic: bool = False,
    vertical: str = "center", indent: int = 0,
) -> NamedStyle:  # fmt: skip
    style = NamedStyle(name=name)
    style.font = Font(name=FONT, size=size, bold=bold, italic=italic, color=color)
    if fill:
        style.fill = PatternFill("solid", fgColor=fill)
    style.border = Border(top=top, bottom=bottom)
    style.alignment = Alignment(wrap_text=wrap, horizontal=horizontal, vertical=vertical, indent=indent)
    return style


def add_styles(workbook: Workbook) -> None:
    """Register the named styles the sheets use."""
    for style in (
        _style("plan title", size=16, bold=True),
        _style("plan subtitle", color=MUTED),
        _style("plan status", bold=True),
        _style("plan section", size=12, bold=True, bottom=_FIRM),
        _style("plan note", color=MUTED, italic=True),
        _style("plan header", bold=True, fill=HEAD_FILL, bottom=_THIN, wrap=True, horizontal="left", indent=1),
        _style(
            "plan header number",
            bold=True,
            fill=HEAD_FILL,
            bottom=_THIN,
            wrap=True,
            horizontal="right",
            vertical="center",
        ),
        _style("plan text", bottom=_THIN, wrap=True, horizontal="left", indent=1),
        _style("plan line", bottom=_THIN, horizontal="left", indent=1),
        _style("plan word", bottom=_THIN, bold=True, horizontal="left", indent=1),
        _style("plan input text", bottom=_THIN, color=BLUE, wrap=True, horizontal="left", indent=1),
        _style("plan figure", bottom=_THIN, horizontal="right"),
        _style("plan input", bottom=_THIN, color=BLUE, horizontal="right"),
        _style("plan driver", bottom=_THIN, color=BLUE, fill=INPUT_FILL, horizontal="right"),
        _style("plan formula", bottom=_THIN, horizontal="right"),
        _style("plan link", bottom=_THIN, color=GREEN, horizontal="right"),
        _style("plan total", bold=True, top=_FIRM, horizontal="right"),
        _style("plan total link", bold=True, color=GREEN, top=_FIRM, horizontal="right"),
        _style("plan total text", bold=True, top=_FIRM, horizontal="left", indent=1),
        _style("plan key label", size=11, color=MUTED, horizontal="left", indent=1),
        _style("plan key figure", size=13, bold=True, horizontal="left", indent=1),
        _style("plan key alarm", size=13, bold=True, color=RED, horizontal="left", indent=1),
        _style("plan key link", size=13, bold=True, color=GREEN, horizontal="left", indent=1),
    ):
        workbook.add_named_style(style)


COUNT = "#,##0"
MONEY, MONEY_WHOLE, MONEY_FINE, PRICE = "#,##0.00", "#,##0", "#,##0.000", "#,##0.00##"
CHANGE = "+#,##0;-#,##0;0"
SHARE = "0.0%"
SHARE_FINE = "0.00%"
RATIO = "+0.0%;-0.0%;0.0%"
MS = "#,##0.0"
MS_WHOLE = "#,##0"
RATE = "#,##0.00"
GIB = "#,##0.00"
MOMENT = "yyyy-mm-dd hh:mm"
PLAIN = "General"
TEXT = "@"

_BY_UNIT = {
    "tokens": COUNT, "requests": COUNT, "replicas": COUNT, "GPUs": COUNT, "B": COUNT, "layers": COUNT, "blocks": COUNT,
    "ms": MS, "GiB": GIB, "GiB per GPU": GIB, "GB": GIB, "1/s": RATE, "requests/s": RATE, "USD/h": MONEY,
    "USD/month": MONEY_WHOLE, "USD": MONEY_FINE, "tokens/s": COUNT, "%": "0.0", "share": SHARE,
}  # fmt: skip


def number_format(unit: str, value: float) -> str:
    """A format for a figure of this unit; where the unit has none, by the figure's size: whole, or 4 figures."""
    if unit in _BY_UNIT and (_BY_UNIT[unit] != COUNT or float(value).is_integer() or abs(value) >= 1000):
        return _BY_UNIT[unit]
    if float(value).is_integer():
        return COUNT
    size = abs(value)
    for least, fmt in ((100, "#,##0.0"), (10, "0.00"), (0.1, "0.000"), (0.001, "0.0000")):
        if size >= least:
            return fmt
    return "0.00E+00"


def status_rules() -> list[Rule]:
    """Conditional formats for a column of status words: red, amber, green."""
    looks = ((BAD_WORDS, RED, "FBE4E2"), (WARN_WORDS, AMBER, "FFF0CF"), (GOOD_WORDS, GREEN, None))
    return [
        CellIsRule(  # type: ignore[no-untyped-call]
            operator="equal",
            formula=[f'"{word}"'],
            font=Font(bold=True, color=color),
            fill=PatternFill(bgColor=fill) if fill else None,
        )
        for words, color, fill in looks
        for word in words
    ]


def master_rules(good: str, warned: str) -> list[Rule]:
    """Formats for the master check: green when it says `good`, amber for `warned`, red otherwise."""
    colors = (("equal", good, GREEN), ("equal", warned, AMBER), ("notEqual", good, RED))
    return [
        CellIsRule(operator=operator, formula=[f'"{words}"'], stopIfTrue=True, font=Font(bold=True, color=color))  # type: ignore[no-untyped-call]
        for operator, words, color in colors
    ]


def heat_rule() -> Rule:
    """White at 0 to blue at the largest."""
    rule: Rule = ColorScaleRule(  # type: ignore[no-untyped-call]
        start_type="num", start_value=0, start_color=HEAT_LOW, end_type="max", end_color=HEAT_HIGH
    )
    return rule


def muted_rule(formula: str) -> Rule:
    """Grey italics on a light fill where the formula holds."""
    fill = PatternFill(bgColor="F2F3F5")
    rule: Rule = FormulaRule(formula=[formula], font=Font(italic=True, color=MUTED), fill=fill)  # type: ignore[no-untyped-call]
    return rule
