-- The workload of each service: rates, bursts, lengths, what was lost, and whether its requests want pools of their own
-- param version INTEGER?: the plan version; the newest unless given
SELECT
  service,
  name,
  value,
  text,
  unit,
  label,
  source
FROM plan_workload
WHERE plan_version = coalesce($version, (SELECT max(plan_version) FROM plan))
ORDER BY service, position;
