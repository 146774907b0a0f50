-- Requests of one file ($source) that stand as often in the files it overlaps, inside the rows of stretches: they stay,
-- as rejected rows.
INSERT INTO rejected_row BY NAME
WITH theirs AS (
    SELECT came_at, what, nth, source_file, line FROM compared WHERE NOT mine
)

SELECT DISTINCT
    $source AS source_file,
    m.line,
    $aside || ' of its own: the same stands at line ' || t.line || ' of ' || t.source_file AS reason,
    NULL AS raw
FROM compared AS m
JOIN theirs AS t USING (came_at, what, nth)
JOIN stretches AS o ON m.came_at BETWEEN o.first_at AND o.last_at
WHERE m.mine;
