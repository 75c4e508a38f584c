"""Shards are found in another plan by their content, as they are one by one."""

from hypothesis import given
from hypothesis import strategies as st

from tasks.protocol.plan_file import Shard, shard_table
from tasks.protocol.same_shards import places_in
from tests.protocol.bench import content_of

Parts = dict[tuple[str, int | None], tuple[str, int | None]]
places = st.tuples(st.sampled_from("abc"), st.sampled_from([None, 0, 1, 2]))
contents = st.tuples(st.sampled_from("vw"), st.sampled_from([None, 2, 3]))


def shards_of(parts: Parts) -> list[Shard]:
    """Shards of a plan: of a path no two start at the same place."""
    return [
        Shard(number, path, identity, 1, start, stop)
        for number, ((path, start), (identity, stop)) in enumerate(parts.items())
    ]


@given(st.dictionaries(places, contents), st.lists(st.dictionaries(places, contents), max_size=3))
def test_a_shard_stands_where_its_content_does(plan: Parts, others: list[Parts]) -> None:
    own, asked = shards_of(plan), [shard for parts in others for shard in shards_of(parts)]
    known = {content_of(shard): at for at, shard in enumerate(own)}
    found = places_in(shard_table(own), shard_table(asked))
    assert found.tolist() == [known.get(content_of(shard), -1) for shard in asked]
