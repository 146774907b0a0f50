"""Charts: lines over time, bars side by side, bars stacked; one look for all.

Belongs here: building a chart over cells that a sheet already holds. Does not: choosing what to draw.
"""

from __future__ import annotations

from collections.abc import Sequence

from openpyxl.chart import BarChart, LineChart, Reference, Series
from openpyxl.chart._chart import ChartBase
from openpyxl.chart.axis import ChartLines
from openpyxl.chart.data_source import StrRef
from openpyxl.chart.series import SeriesLabel
from openpyxl.chart.shapes import GraphicalProperties
from openpyxl.chart.text import RichText, Text
from openpyxl.chart.title import Title
from openpyxl.drawing.line import LineProperties
from openpyxl.drawing.text import CharacterProperties, Paragraph, ParagraphProperties, RegularTextRun
from openpyxl.utils import get_column_letter
from openpyxl.worksheet.worksheet import Worksheet

from reports import styles
from reports.text import cell_text


def _small() -> RichText:
    look = CharacterProperties(sz=900, solidFill=styles.INK)
    return RichText(p=[Paragraph(pPr=ParagraphProperties(defRPr=look), endParaRPr=look)])


def _title(words: str, look: CharacterProperties) -> Title:
    paragraph = Paragraph(pPr=ParagraphProperties(defRPr=look), r=[RegularTextRun(rPr=look, t=words)])
    return Title(tx=Text(rich=RichText(p=[paragraph])), overlay=False)


def _finish(chart: BarChart | LineChart, title: str, x_title: str, y_title: str, fmt: str) -> None:
    chart.title = _title(cell_text(title)[:120], CharacterProperties(sz=1100, b=True, solidFill=styles.INK))
    for axis, words in ((chart.x_axis, x_title), (chart.y_axis, y_title)):
        axis.delete = False
        axis.txPr = _small()
        if words:
            axis.title = _title(words, CharacterProperties(sz=900, b=False, solidFill=styles.MUTED))
    chart.y_axis.majorGridlines = ChartLines(spPr=GraphicalProperties(ln=LineProperties(solidFill="E3E6EB")))
    chart.y_axis.number_format = fmt
    chart.y_axis.scaling.min = 0
    if chart.legend is not None:
        chart.legend.position = "b"
        chart.legend.txPr = _small()


def line(sheet: Worksheet, title: str, y_title: str, columns: Sequence[int], rows: tuple[int, int]) -> ChartBase:
    """Lines over the first column's categories; `rows` runs from the header row to the last."""
    chart = LineChart()
    chart.x_axis.number_format = chart.y_axis.number_format = "General"
    _fill(chart, sheet, columns, rows)
    for series, color in zip(chart.series, styles.SERIES, strict=False):
        series.smooth = False
        series.marker.symbol = "none"
        series.graphicalProperties = GraphicalProperties(ln=LineProperties(solidFill=color, w=19_050))
    if len(columns) == 2:
        chart.legend = None
    _finish(chart, title, "", y_title, "0.0")
    every = label_step(rows[1] - rows[0])
    chart.x_axis.tickLblSkip = chart.x_axis.tickMarkSkip = every  # type: ignore[attr-defined]
    return chart


def label_step(points: int) -> int:
    """Points from one label of a line's axis to the next: about twelve labels, however many points."""
    return max(1, points // 12)


def paired(
    sheet: Worksheet,
    title: str,
    columns: tuple[int, int, int],
    header_row: int,
    rows: tuple[int, int],
    log_from: float | None = None,
) -> ChartBase:
    """Two bars a category: columns are category, first series, second series; series are named in `header_row`.

    `log_from` asks for a logarithmic axis that begins there, for figures that span orders of magnitude.
    """
    chart = BarChart()
    chart.type, chart.grouping, chart.gapWidth, chart.overlap = "col", "clustered", 60, 0
    for column in columns[1:]:
        values = Reference(sheet, min_col=column, min_row=rows[0], max_row=rows[1])
        series = Series(values)
        series.tx = SeriesLabel(strRef=StrRef(f"'{sheet.title}'!${get_column_letter(column)}${header_row}"))
        chart.series.append(series)
    chart.set_categories(Reference(sheet, min_col=columns[0], min_row=rows[0], max_row=rows[1]))
    _paint(chart)
    _finish(chart, title, "", "ms" if log_from is None else "ms, log scale", "#,##0")
    if log_from is not None:
        chart.y_axis.scaling.logBase, chart.y_axis.scaling.min = 10, log_from
        chart.x_axis.crosses = "min"
    return chart


def stack(
    sheet: Worksheet, title: str, x_title: str, label_row: int, columns: tuple[int, int], rows: Sequence[int]
) -> ChartBase:
    """Horizontal stacked bars, a bar a column of the sheet and a band a row; names of bands stand in column A."""
    chart = BarChart()
    chart.type, chart.grouping, chart.gapWidth, chart.overlap = "bar", "stacked", 50, 100
    for row in rows:
        series = Series(Reference(sheet, min_col=columns[0], max_col=columns[1], min_row=row))
        series.tx = SeriesLabel(strRef=StrRef(f"'{sheet.title}'!$A${row}"))
        chart.series.append(series)
    chart.set_categories(Reference(sheet, min_col=columns[0], max_col=columns[1], min_row=label_row))
    _paint(chart)
    _finish(chart, title, "", x_title, "0")
    chart.x_axis.scaling.orientation = "maxMin"
    chart.y_axis.crosses = "max"
    return chart


def _fill(chart: BarChart | LineChart, sheet: Worksheet, columns: Sequence[int], rows: tuple[int, int]) -> None:
    for column in columns[1:]:
        data = Reference(sheet, min_col=column, min_row=rows[0], max_row=rows[1])
        chart.add_data(data, titles_from_data=True)
    chart.set_categories(Reference(sheet, min_col=columns[0], min_row=rows[0] + 1, max_row=rows[1]))


def _paint(chart: BarChart) -> None:
    for index, series in enumerate(chart.series):
        series.graphicalProperties = GraphicalProperties(solidFill=styles.SERIES[index % len(styles.SERIES)])
        series.invertIfNegative = False
