"""Published rows, predicted again at the end of a case: they come out the same."""

from contextlib import suppress

from tasks.errors import InvalidSpec, PredictionsDiffer
from tasks.previewing import clear_away
from tasks.spec_file import parse_spec
from tasks.verifying.accepting import Configs
from tasks.verifying.outcome import Outcome, outcome_of
from tasks.verifying.sample import draw_sample, trial_to_verify
from tests.soak.orchestrator import predict
from tests.soak.scene import Scene
from tests.soak.specs import spec_of

ROWS = 1_000
"""All that a case has, as a rule."""
TOLERANCE = 1e-12


def problem_of(scene: Scene) -> str:
    """What came out otherwise; empty where nothing did."""
    spec = parse_spec(spec_of(scene.case, scene.site))
    trial = trial_to_verify(spec, ROWS, "soak", on_cluster=False)
    outcome: Outcome | None = None
    try:
        # Every input may have changed since, or nothing be published.
        with suppress(InvalidSpec):
            sample = draw_sample(spec, trial, ROWS, ())
            predict(sample.planned)
            fingerprints = sample.planned.plan.pins["fingerprints"]
            configs = Configs(spec, fingerprints, sample.seen)
            outcome = outcome_of(sample, configs, TOLERANCE, is_where_runs_go=False)
            outcome.refuse_differences()
    except PredictionsDiffer as error:
        return f"predicted again: {error}"
    finally:
        clear_away(trial)
    scene.result.verified = outcome.compared.rows if outcome else 0
    return ""
