"""A sheet being laid out: where things go, and that every value lands safely.

Belongs here: writing a value of any kind into a cell, sections, notes, real Excel tables, print set-up, the master
check in the frozen pane. Does not: what a particular sheet shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from openpyxl import Workbook
from openpyxl.cell.cell import Cell, MergedCell
from openpyxl.chart._chart import ChartBase
from openpyxl.utils import get_column_letter
from openpyxl.workbook.defined_name import DefinedName
from openpyxl.worksheet.pagebreak import Break
from openpyxl.worksheet.properties import PageSetupProperties
from openpyxl.worksheet.table import Table, TableStyleInfo

from reports import styles
from reports.formulas import Live, Scalar
from reports.text import cell_text, header_text, looks_like_formula


@dataclass(frozen=True, slots=True)
class Input:
    """A value the reader may see as an input: blue; `live` ones drive formulas and are shaded as well."""

    value: float | int | str | None
    live: bool = False


Value = str | float | int | bool | datetime | None | Live | Input
FromRow = Callable[[Mapping[str, Live]], Value]
"""A value made of the row's cells to its left, by header."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its header (unit included, one line) and number format.

    Text wraps, unless `runs_on` lets it run over the empty cells to the right of a last column.
    """

    header: str
    format: str = styles.TEXT
    runs_on: bool = False

    @property
    def numeric(self) -> bool:
        """Whether its header stands right, over figures."""
        return self.format not in (styles.TEXT, styles.MOMENT)


class Page:
    """One sheet, written top to bottom. `row` is the next free row; `cached` the values of its formulas so far."""

    def __init__(self, workbook: Workbook, title: str, widths: Sequence[float], color: str = styles.MUTED) -> None:
        self.sheet = workbook.create_sheet(title)
        self.workbook = workbook
        self.title = title
        self.cached: dict[str, Scalar] = {}
        self.row = 1
        self.widths = list(widths)
        self._quoted = f"'{title}'" if " " in title else title
        self.sheet.sheet_properties.tabColor = color
        self.sheet.sheet_view.showGridLines = False
        for index, width in enumerate(widths, start=1):
            self.sheet.column_dimensions[get_column_letter(index)].width = width

    def ref(self, row: int, column: int, value: Scalar) -> Live:
        """A reference to a cell of this page, usable in formulas of any page."""
        return Live(f"{self._quoted}!${get_column_letter(column)}${row}", value)

    def put(self, row: int, column: int, value: Value, style: str = "", fmt: str = "") -> Live | None:
        """Write a value; text never becomes a formula. Returns the reference, or None for an empty cell."""
        cell = self.sheet.cell(row, column)
        if isinstance(value, Input):
            blue = "plan driver" if value.live else "plan input"
            value = value.value
            style = style or ("plan input text" if isinstance(value, str) else blue)
        if isinstance(value, float) and not math.isfinite(value):
            value = None if math.isnan(value) else "infinite"
        if isinstance(value, Live):
            return self._formula(cell, row, column, value, style, fmt)
        if isinstance(value, bool):
            value = "yes" if value else "no"
        if isinstance(value, str):
            self._text(cell, value, style or "plan text")
            return self.ref(row, column, value)
        cell.style = style or ("plan figure" if value is not None else "plan text")
        if value is None:
            return None
        if isinstance(value, datetime):
            cell.value, cell.number_format = value.replace(tzinfo=None), fmt or styles.MOMENT
            return None
        cell.value = value
        cell.number_format = styles.number_format("", value) if fmt in ("", styles.TEXT, styles.PLAIN) else fmt
        return self.ref(row, column, value)

    def _formula(self, cell: Cell | MergedCell, row: int, column: int, live: Live, style: str, fmt: str) -> Live:
        formula = live.formula.replace(f"{self._quoted}!", "")
        abroad = "!" in formula
        cell.value = f"={formula}"
        if not style or style in ("plan total", "plan key figure"):
            linked = {"": "plan link", "plan total": "plan total link", "plan key figure": "plan key link"}
            style = linked[style] if abroad else style or "plan formula"
            style = "plan word" if isinstance(live.value, str) else style
        cell.style = style
        if fmt and fmt != styles.TEXT:
            cell.number_format = fmt
        self.cached[cell.coordinate] = live.value
        return self.ref(row, column, live.value)

    def _text(self, cell: Cell | MergedCell, value: str, style: str) -> None:
        cell.style = style
        if not value:
            return
        safe = cell_text(value)
        cell.value = safe
        cell.data_type = "s"
        if looks_like_formula(safe):
            cell.quotePrefix = True

    def head(self, title: str, subtitle: str) -> None:
        """Title and what the sheet belongs to; row 3 is kept for the master check."""
        self.put(1, 1, title, "plan title")
        self.put(2, 1, subtitle, "plan subtitle")
        self.sheet.row_dimensions[1].height = 24
        self.row = 5
        self.sheet.freeze_panes = "A4"

    def master_check(self, check: Live, good: str, warned: str) -> None:
        """The workbook's one check, in the frozen rows of every sheet."""
        self.put(3, 1, check, "plan status")
        for rule in styles.master_rules(good, warned):
            self.sheet.conditional_formatting.add("A3", rule)

    def section(self, title: str, note: str = "") -> None:
        """A heading over the page's width, with a line that says what follows."""
        for column in range(1, len(self.widths) + 1):
            self.sheet.cell(self.row, column).style = "plan section"
        self.put(self.row, 1, title, "plan section")
        self.sheet.row_dimensions[self.row].height = 20
        self.row += 1
        if note:
            self.note(note)

    def note(self, text: str) -> None:
        """A remark that runs over the empty cells to its right."""
        self.put(self.row, 1, text, "plan note")
        self.row += 1

    def new_page(self) -> None:
        """Begin a printed page here, so that a block stays whole."""
        self.sheet.row_breaks.append(Break(id=self.row - 1))

    def gap(self, rows: int = 1) -> None:
        """Leave rows free."""
        self.row += rows

    def table(
        self, name: str, columns: Sequence[Column], rows: Sequence[Sequence[Value | FromRow]], first: int = 1
    ) -> list[dict[str, Live]]:
        """An Excel table at the next free row; `rows` may not be empty. Returns each row's cells by header."""
        if not rows:
            raise ValueError(f"table {name} has no rows: say so in a note instead")
        self.header(columns, first)
        top = self.row - 1
        written = [self._table_row(columns, row, first) for row in rows]
        end = f"{get_column_letter(first + len(columns) - 1)}{self.row - 1}"
        table = Table(displayName=name, ref=f"{get_column_letter(first)}{top}:{end}")
        if any(callable(cell) or isinstance(cell, Live) for row in rows for cell in row):
            # Formulas point at cells by place: sorting such a table would move the words and not what they point at.
            table.autoFilter = None
        table.tableStyleInfo = TableStyleInfo(name="TableStyleLight1", showRowStripes=False)
        self.sheet.add_table(table)
        return written

    def header(self, columns: Sequence[Column], first: int = 1) -> None:
        """A header row, high enough for its longest header."""
        lines = 1
        for offset, column in enumerate(columns):
            style = "plan header number" if column.numeric else "plan header"
            self.put(self.row, first + offset, column.header, style)
            if column.runs_on:
                self._run_on(first + offset + 1, style)
            lines = max(lines, self.lines(column.header, first + offset, bold=True))
        self.sheet.row_dimensions[self.row].height = 13.5 * lines + 6
        self.row += 1

    def _table_row(self, columns: Sequence[Column], row: Sequence[Value | FromRow], first: int) -> dict[str, Live]:
        cells: dict[str, Live] = {}
        lines = 1
        for offset, (column, given) in enumerate(zip(columns, row, strict=True)):
            value = given(cells) if callable(given) else given
            ref = self.put(self.row, first + offset, value, "plan line" if column.runs_on else "", column.format)
            if ref is not None:
                cells[column.header] = ref
            if column.runs_on:
                self._run_on(first + offset + 1, "plan line")
            elif isinstance(words := value.value if isinstance(value, Input) else value, str):
                lines = max(lines, self.lines(words, first + offset))
        self.sheet.row_dimensions[self.row].height = min(13.5 * lines + 3, 400)
        self.row += 1
        return cells

    def _run_on(self, column: int, style: str) -> None:
        """Draw the row on to the edge of the page, under text that runs over."""
        for empty in range(column, len(self.widths) + 1):
            self.sheet.cell(self.row, empty).style = style

    def lines(self, text: str, column: int, bold: bool = False) -> int:
        """Lines a wrapped text takes; words that do not fit a line end it early, hence the allowance."""
        width = max(4.0, (self.widths[column - 1] - 1.3) * (1.05 if bold else 1.2))
        count = 0
        for paragraph in text.split("\n"):
            count += 1
            used = 0.0
            for word in paragraph.split(" "):
                if used and used + 1 + len(word) > width:
                    count, used = count + 1, 0.0
                used += len(word) + (1 if used else 0)
                while used > width:
                    count, used = count + 1, used - width
        return count

    def chart(
        self, chart: ChartBase, width_cm: float, height_cm: float, column: str = "A", next_beside: bool = False
    ) -> None:
        """Place a chart and leave the rows it covers free (a row is about 0.53 cm), or let the next stand beside it."""
        chart.width, chart.height = width_cm, height_cm  # type: ignore[assignment]  # its own default is 7.5
        self.sheet.add_chart(chart, f"{column}{self.row}")
        if not next_beside:
            self.row += math.ceil(height_cm / 0.53) + 1

    def name_cell(self, name: str, cell: Live) -> None:
        """Give a cell a name in the workbook."""
        self.workbook.defined_names[name] = DefinedName(name, attr_text=cell.formula)

    def status_column(self, column: int, first_row: int, last_row: int) -> None:
        """Colour the status words of a column."""
        letter = get_column_letter(column)
        for rule in styles.status_rules():
            self.sheet.conditional_formatting.add(f"{letter}{first_row}:{letter}{last_row}", rule)

    def muted_rows(self, first_row: int, last_row: int, column: int, word: str, last_column: int) -> None:
        """Grey the rows whose `column` says `word`."""
        letter = get_column_letter(column)
        area = f"A{first_row}:{get_column_letter(last_column)}{last_row}"
        self.sheet.conditional_formatting.add(area, styles.muted_rule(f'${letter}{first_row}="{word}"'))

    def print_setup(self, left: str, right: str, last_column: int | None = None) -> None:
        """Landscape A4, one page wide, titles repeated, the plan version on every page."""
        sheet = self.sheet
        sheet.page_setup.orientation = "landscape"
        sheet.page_setup.paperSize = 9
        sheet.page_setup.fitToWidth, sheet.page_setup.fitToHeight = 1, 0
        sheet.sheet_properties.pageSetUpPr = PageSetupProperties(fitToPage=True)
        sheet.print_title_rows = "1:4"
        columns = last_column or len(self.widths)
        sheet.print_area = f"A1:{get_column_letter(columns)}{max(self.row, 4)}"
        margins = sheet.page_margins
        margins.left = margins.right = 0.4
        margins.top, margins.bottom, margins.header, margins.footer = 0.75, 0.6, 0.3, 0.3
        sheet.oddHeader.left.text, sheet.oddHeader.right.text = header_text(left), header_text(self.title)
        sheet.oddFooter.left.text, sheet.oddFooter.right.text = header_text(right), "Page &P of &N"
        for part in (sheet.oddHeader.left, sheet.oddHeader.right, sheet.oddFooter.left, sheet.oddFooter.right):
            part.size = 8
