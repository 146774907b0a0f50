-- Who and what the requests are: model, adapter, tenant, features, and how they ended
-- param version INTEGER?: the plan version; the newest unless given
SELECT
  service,
  dimension,
  value,
  requests,
  share,
  isl_mean_tokens,
  osl_mean_tokens,
  label
FROM workload_mix
WHERE plan_version = coalesce($version, (SELECT max(plan_version) FROM plan))
ORDER BY service, dimension, position;
