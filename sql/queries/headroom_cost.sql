-- What each service holds against each risk, what that costs a month, and its share of the service's bill
-- param version INTEGER?: the plan version; the newest unless given
SELECT
  headroom.service,
  headroom.risk,
  headroom.factor,
  headroom.replicas,
  headroom.gpus,
  coalesce(cost.usd_per_month, 0) AS usd_per_month,
  coalesce(cost.usd_per_month, 0) / nullif(sum(cost.usd_per_month) OVER (PARTITION BY headroom.service), 0)
    AS share_of_service,
  headroom.basis,
  headroom.label,
  headroom.source
FROM plan_headroom AS headroom
LEFT JOIN plan_cost AS cost
  ON cost.plan_version = headroom.plan_version
  AND cost.service = headroom.service
  AND cost.item = headroom.risk
WHERE headroom.plan_version = coalesce($version, (SELECT max(plan_version) FROM plan))
ORDER BY headroom.service, headroom.position;
