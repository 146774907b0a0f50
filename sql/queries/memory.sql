-- Where the memory of an accelerator goes: the account of each chosen configuration, term by term
-- param version INTEGER?: the plan version; the newest unless given
SELECT
  account.service,
  account.candidate_id,
  account.term,
  account.value,
  account.unit,
  account.label,
  account.source,
  account.note
FROM plan_memory AS account
JOIN plan_candidate AS candidate USING (plan_version, service, candidate_id)
WHERE candidate.status = 'chosen' AND account.plan_version = coalesce($version, (SELECT max(plan_version) FROM plan))
ORDER BY account.service, account.position;
