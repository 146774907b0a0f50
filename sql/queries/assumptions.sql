-- What the plan takes for granted: inputs nobody measured, read or cited
-- param version INTEGER?: the plan version; the newest unless given
-- param label VARCHAR?: another label: verified, measured, cited, inferred or estimated
SELECT
  service,
  name,
  coalesce(value::VARCHAR, text) AS value,
  unit,
  label,
  source,
  comment
FROM plan_assumption
WHERE label = coalesce($label, 'assumed') AND plan_version = coalesce($version, (SELECT max(plan_version) FROM plan))
ORDER BY service, position;
