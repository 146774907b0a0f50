-- Why the bill changed between two versions: each line's change, split into more or fewer accelerators and their price
-- param from_version INTEGER?: the earlier version; the one before to_version unless given
-- param to_version INTEGER?: the later version; the newest unless given
WITH
chosen AS (
  SELECT coalesce($to_version, (SELECT max(plan_version) FROM plan)) AS later
),
versions AS (
  SELECT later, coalesce($from_version, (SELECT max(plan_version) FROM plan WHERE plan_version < later)) AS earlier
  FROM chosen
),
earlier AS (SELECT plan_cost.* FROM plan_cost, versions WHERE plan_version = versions.earlier),
later AS (SELECT plan_cost.* FROM plan_cost, versions WHERE plan_version = versions.later),
lines AS (
  SELECT
    coalesce(later.service, earlier.service) AS service,
    coalesce(later.item, earlier.item) AS item,
    earlier.gpu_id AS gpu_id_before,
    later.gpu_id AS gpu_id_after,
    coalesce(earlier.gpus, 0) AS gpus_before,
    coalesce(later.gpus, 0) AS gpus_after,
    coalesce(earlier.usd_per_month, 0) AS usd_per_month_before,
    coalesce(later.usd_per_month, 0) AS usd_per_month_after,
    -- A line on one side only is all quantity: it takes the price of the side that has it.
    coalesce(earlier.usd_per_gpu_hour * earlier.hours_per_month, later.usd_per_gpu_hour * later.hours_per_month)
      AS usd_per_gpu_month_before,
    coalesce(earlier.position, later.position) AS position
  FROM earlier
  FULL JOIN later ON later.service = earlier.service AND later.item = earlier.item
)
SELECT
  service,
  item,
  gpu_id_before,
  gpu_id_after,
  gpus_before,
  gpus_after,
  usd_per_month_before,
  usd_per_month_after,
  usd_per_month_after - usd_per_month_before AS usd_per_month_change,
  (gpus_after - gpus_before) * usd_per_gpu_month_before AS from_quantity,
  usd_per_month_after - usd_per_month_before - (gpus_after - gpus_before) * usd_per_gpu_month_before AS from_price
FROM lines
ORDER BY abs(usd_per_month_change) DESC, service, position;
