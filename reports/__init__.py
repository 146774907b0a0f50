"""The workbook: one module a sheet, in reading order, and the styles they share.

Belongs here: how a plan is shown. Does not: computing a figure (`estimator`) or fetching one (`warehouse`): a sheet is
given frames and returns cells.
"""
