"""Tests of the workbook: what it says, that it adds up, and that nothing from outside becomes a formula."""
