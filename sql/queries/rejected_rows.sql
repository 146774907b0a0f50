-- Rows that were not taken, by source and reason, with how many and the first line of each
SELECT
  source_file,
  -- The value is left out, so that "osl_tokens is -3, must be above 0" and "... is 0, ..." count as one reason.
  regexp_replace(reason, ' is (''.*''|[^ ,]+), ', ': ') AS reason,
  count(*) AS rows,
  min(line) AS first_line,
  arg_min(raw, line) AS first_row
FROM (SELECT source_file, line, raw, unnest(string_split(reason, '; ')) AS reason FROM rejected_row)
GROUP BY ALL
ORDER BY rows DESC, source_file, reason;
