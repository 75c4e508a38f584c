"""Worker processes that die by themselves right before or right after they stored a record."""

from tests.chaos.inputs import doubled, spread, write_parquet, write_spec
from tests.chaos.outcome import Outcome, judge
from tests.chaos.session import HERE, Session


def worker(session: Session, seed: int, *, rows: int = 40_000, each: int = 3) -> Outcome:
    """Some die before, some after; Ray runs their tasks again, with other content perhaps."""
    with session.place(f"worker-{seed}") as place:
        write_parquet(place.folder / "in", spread(rows, 40))
        spec = write_spec(place, 0.005)
        expected = doubled(rows)
        deaths = place.folder / "deaths"
        deaths.mkdir()
        path = f"{HERE / 'hooks'}:{place.environment.get('PYTHONPATH', '')}"
        place.finish(spec, PYTHONPATH=path, CHAOS_SUICIDES=f"{deaths}:{each}")
        died = sorted(file.name for file in deaths.iterdir())
        print(f"  died: {', '.join(died)}", flush=True)
        problems = () if any("after" in name for name in died) else ("nobody died after",)
        return judge(place, spec, expected, seed, len(died), problems=problems)
