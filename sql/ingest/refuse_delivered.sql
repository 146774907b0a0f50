-- Requests of one file whose id another file of the same source already gave: they stay, as rejected rows.
INSERT INTO rejected_row BY NAME
SELECT
    late.source_file,
    late.line,
    $aside || ' of its own: ' || late.request_id || ' stands at line ' || min(known.line) || ' of '
    || min_by(known.source_file, known.line) AS reason,
    NULL AS raw
FROM request AS late
JOIN request AS known ON known.request_id = late.request_id AND known.source_file <> late.source_file
JOIN source_file AS other ON other.source_file = known.source_file AND other.named_by = $named_by
WHERE late.source_file = $source
GROUP BY late.source_file, late.line, late.request_id;
