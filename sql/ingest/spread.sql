-- Arrivals of one file moved inside their grid step; written_at keeps what the source wrote. $source names it; the moved
-- arrivals stand in moved_arrivals by line.
UPDATE request
SET written_at = request.arrival_at, arrival_at = moved.arrival_at
FROM moved_arrivals AS moved
WHERE request.source_file = $source AND request.line = moved.line;
