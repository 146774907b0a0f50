-- Every published figure with the formula it came from and what went into it
-- param version INTEGER?: the plan version; the newest unless given
-- param number VARCHAR?: one figure, such as chat.gpus; all unless given
SELECT
  number,
  value,
  unit,
  label,
  formula,
  inputs_json,
  source
FROM plan_number
WHERE plan_version = coalesce($version, (SELECT max(plan_version) FROM plan)) AND number = coalesce($number, number)
ORDER BY number;
