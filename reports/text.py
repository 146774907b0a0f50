"""Text from outside, made safe to stand in a cell, a header, a defined name or a file name.

Belongs here: what a spreadsheet would otherwise read as a formula, an escape or markup. Does not: wording.
"""

from __future__ import annotations

import re
import unicodedata

CELL_LIMIT = 32_767
"""Characters a cell may hold (Excel specifications and limits)."""
CUT_MARK = " … [cut]"

_NOT_XML = re.compile("[^\t\n\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ESCAPE_LOOKALIKE = re.compile(r"_(?=x[0-9A-Fa-f]{4}_)")
_FORMULA_LEADS = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%")


def cell_text(value: str) -> str:
    """`value` as a cell can hold it: XML 1.0 characters only, line ends as \\n, at most 32,767 characters.

    A literal `_x0041_` is escaped, since spreadsheets read it as the character it names (ECMA-376 ST_Xstring).
    """
    clean = _NOT_XML.sub("\ufffd", value.replace("\r\n", "\n").replace("\r", "\n"))
    clean = _ESCAPE_LOOKALIKE.sub("_x005F_", clean)
    return clean if len(clean) <= CELL_LIMIT else clean[: CELL_LIMIT - len(CUT_MARK)] + CUT_MARK


def looks_like_formula(value: str) -> bool:
    """Whether a spreadsheet, or a CSV made from it, could take the text for a formula."""
    return value.lstrip(" \u00a0").startswith(_FORMULA_LEADS) or value.startswith(_FORMULA_LEADS)


def header_text(value: str) -> str:
    """Text for a page header or footer, where `&` starts a code and a line end breaks the part."""
    return cell_text(value).replace("&", "&&").replace("\n", " ")[:80]


def slug(value: str, fallback: str = "workspace") -> str:
    """`value` as a safe piece of a file or defined name: ASCII letters, digits, dash and underscore, at most 48."""
    plain = unicodedata.normalize("NFKD", value).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9-]+", "_", plain).strip("_-")[:48].rstrip("_-") or fallback
