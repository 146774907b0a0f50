-- The chosen fleet over time in its replays: what ran, what waited, and which limit held it
-- param version INTEGER?: the plan version; the newest unless given
SELECT
  service,
  scenario,
  start_s,
  running,
  waiting,
  kv_usage,
  preemptions,
  busy_share,
  queue_limit,
  label
FROM plan_series
WHERE plan_version = coalesce($version, (SELECT max(plan_version) FROM plan))
ORDER BY service, scenario, bin;
