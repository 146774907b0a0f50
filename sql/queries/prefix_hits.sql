-- What a prefix cache of each size would find in the trace, and what each larger tier adds
-- param version INTEGER?: the plan version; the newest unless given
SELECT
  service,
  tier,
  capacity_tokens,
  hit_tokens,
  hit_share,
  added_share,
  label
FROM workload_prefix
WHERE plan_version = coalesce($version, (SELECT max(plan_version) FROM plan))
ORDER BY service, position;
