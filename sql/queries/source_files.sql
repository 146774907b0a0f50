-- Every file that was read: when, as what, how many rows it gave and how many were refused
SELECT
  source_file,
  kind,
  format,
  loaded_at,
  size_bytes,
  rows_read,
  rows_kept,
  rows_rejected,
  rows_rejected / nullif(rows_read, 0) AS rejected_share,
  detail,
  sha256
FROM source_file
ORDER BY kind, source_file;
