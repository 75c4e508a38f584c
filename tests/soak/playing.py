"""Plays a case, round after round."""

import shutil
import time

from tests.soak.drawn import Case
from tests.soak.results import Result, Struck
from tests.soak.scene import Scene
from tests.soak.stand import Stand
from tests.soak.turn import BrokenPromise, Turn
from tests.soak.verified import problem_of


def play(stand: Stand, case: Case) -> Result:
    """Play a case; that it breaks is a result too."""
    begun, result = time.monotonic(), Result(case.seed, case.where, str(case.pipeline))
    scene = Scene(stand, case, result)
    try:
        scene.put(case.inputs)
        for each in case.rounds:
            result.struck.append(Struck(each.strike.fault, f"{each.action} {each.strike}"))
            Turn(scene, each, result.struck[-1]).take()
        if problem := problem_of(scene):
            result.problems.append(problem)
    except (BrokenPromise, TimeoutError) as error:
        result.problems.append(str(error))
    except Exception as error:
        result.problems.append(f"{type(error).__name__}: {error}")
    finally:
        scene.end()
    result.seconds = round(time.monotonic() - begun, 1)
    if result.is_good:
        shutil.rmtree(scene.site.folder)
    return result
