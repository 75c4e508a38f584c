"""`python -m tests.results`: docs/measured.md's table of faults, of the results in this folder.

`python -m tests.chaos --resume tests/results/chaos.jsonl`, and the same of `tests.chaos.matrix`,
`tests.soak` and (as `--log`) `tests.simulation`, add to them what is not there yet.
"""

from tests.results.proofs import table

if __name__ == "__main__":
    print(table())
