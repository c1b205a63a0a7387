"""Which models a cluster can fit, and how."""

from typing import Any

import numpy as np

from starcast.distributed.plan import Plan
from starcast.distributed.plan_ordinal import OrdinalPlan
from starcast.distributed.plan_point import PointPlan
from starcast.distributed.plan_scores import BeMFPlan, ResBeMFPlan
from starcast.distributed.shards import Shards
from starcast.errors import ParameterError
from starcast.models import PMF, BeMF, BiasedMF, OrdinalMF, ResBeMF
from starcast.models.base import Model

PLANS: dict[type[Model], Any] = {
    OrdinalMF: OrdinalPlan,
    ResBeMF: ResBeMFPlan,
    BeMF: BeMFPlan,
    PMF: PointPlan,
    BiasedMF: PointPlan,
}


def check_plan(model: Model) -> None:
    """Raise an error unless a cluster can fit the model."""
    if type(model) not in PLANS:
        can = ", ".join(f"{kind.__name__} ({plan.NEEDS})" for kind, plan in PLANS.items())
        raise ParameterError(
            f"{type(model).__name__} cannot be fitted on a cluster. These can: {can}. Choose one of them, or fit it "
            "without an engine."
        )


def make_plan(model: Model, shards: Shards, seed: int) -> Plan:
    """Return the plan for a model that has remembered what it keeps of the ratings."""
    plan: Plan = PLANS[type(model)](model, shards, seed)
    return plan


def choose_seed(model: Model) -> int:
    """Return the model's seed, or one that all workers will share if it has none."""
    given = model.get_params().get("random_state")
    return int(np.random.SeedSequence().generate_state(1)[0]) if given is None else int(given)
