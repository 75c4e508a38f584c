"""Pure functions of the protocol whose answers are kept: the same bytes mean the same thing."""

from functools import lru_cache

from tasks.protocol import plan_file, records

KEPT = 4096

record_from_json = lru_cache(maxsize=KEPT)(records.from_json)
plan_from_bytes = lru_cache(maxsize=KEPT)(plan_file.plan_from_bytes)
encode_plan = plan_file.plan_to_bytes
plans: dict[str, bytes] = {}


def plan_to_bytes(plan: plan_file.Plan) -> bytes:
    """A plan as stored; its digest says all that is in it."""
    if plan.digest not in plans:
        if len(plans) == KEPT:
            plans.clear()
        plans[plan.digest] = encode_plan(plan)
    return plans[plan.digest]
