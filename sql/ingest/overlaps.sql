-- The files of a source ($named_by) whose span of time overlaps that of one file ($file_number), with the common stretch.
SELECT
    other.source_file,
    greatest(mine.first_at, other.first_at) AS first_at,
    least(mine.last_at, other.last_at) AS last_at
FROM request_file AS mine
JOIN request_file AS other ON other.first_at <= mine.last_at AND other.last_at >= mine.first_at
JOIN source_file AS named ON named.source_file = other.source_file AND named.named_by = $named_by
WHERE mine.file_number = $file_number AND other.file_number <> $file_number
ORDER BY other.source_file;
