"""What a spec asks for and the flow's own process, where inline jobs and previews run, lacks.

It has no GPU to give, its environment and packages are what they were when it started, and it runs
one replica on the memory that the machine has.
"""

import os
import shutil
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from resource import RLIM_INFINITY, RLIMIT_NOFILE, RLIMIT_NPROC, getrlimit

from packaging.requirements import InvalidRequirement, Requirement

from tasks.errors import InvalidSpec, shown
from tasks.kinds.clusters import AnyCluster, InlineCluster, LocalCluster
from tasks.machine import GIB, memory, threads_left
from tasks.spec import BatchInferenceSpec

RAYS_FILES = 64 << 20
"""Bytes of logs and sockets, of a short run."""
RAYS_THREADS, RAYS_DESCRIPTORS = 256, 128
"""What the smallest job on two cores needs: with fewer it was seen to hang, or to fail for ever."""
GONE = "the current folder was deleted (and perhaps created again): cd to one that exists"


def lacking_here(spec: BatchInferenceSpec) -> dict[str, object]:
    """Fields that would make rows other than they come out here, with what is missing of each.

    What makes no difference is not missing: a variable that has its value already, a requirement
    that is met, no GPU for a model that can do without.
    """
    resources, given = spec.resources, spec.environment.env_vars
    gpus = float(spec.model.needs_gpu) if resources.num_gpus == "auto" else resources.num_gpus
    asked = {
        "resources.num_gpus": gpus,
        "resources.accelerator_type": resources.accelerator_type,
        "environment.env_vars": sorted(n for n, value in given.items() if os.getenv(n) != value),
        "environment.pip": packages_lacking(spec),
    }
    return {field: value for field, value in asked.items() if value}


def lacking_inline(spec: BatchInferenceSpec) -> dict[str, object]:
    """The same, and how much of what is here; a few rows of a preview can do with less."""
    resources = spec.resources
    asked = {
        "resources.memory_gb": resources.memory_gb if lacks_memory(spec) else None,
        "resources.min_replicas": resources.min_replicas if resources.min_replicas > 1 else None,
    }
    return lacking_here(spec) | {field: value for field, value in asked.items() if value}


def refuse_lacking(spec: BatchInferenceSpec) -> None:
    """Refuse a job in this process, or on this machine, that asks for what is not there.

    Raises:
        InvalidSpec: names all such fields, and the ways out.
    """
    if packages := packages_lacking(spec):
        problem = (
            f"cannot be installed on cluster.kind {spec.cluster.kind}, which uses the packages "
            "installed here: pip install them here, or set cluster.kind to ray_jobs or kuberay, "
            "which install them"
        )
        raise InvalidSpec.at("environment.pip", packages, problem)
    lacking = lacking_inline(spec) if isinstance(spec.cluster, InlineCluster) else {}
    if lacking:
        problem = (
            "is not possible in this process, where cluster.kind inline runs one replica on "
            "CPUs, in the environment it was started with: set cluster: {kind: local}, set these "
            "variables before the start, or change the field"
        )
        *others, (field, value) = lacking.items()
        also = "".join(f"{name}: {shown(given)}, " for name, given in others)
        raise InvalidSpec.at(f"{also}{field}", value, problem)


def refuse_lost_folder() -> None:
    """See that the folder is there in which a job's driver would begin: Ray asks for its name.

    Raises:
        InvalidSpec: somebody has deleted it.
    """
    try:
        os.getcwd()
    except FileNotFoundError as error:
        raise InvalidSpec(f"Ray starts where you are, but {GONE}") from error


def refuse_low_limits(cluster: AnyCluster) -> None:
    """See that a Ray of the job's own may start its processes, and open its files.

    It would wait, in each attempt, for one that could not start, and not say why. It is looked at
    as that is about to start: what this run has started already takes of the same limits.

    Args:
        cluster: where the job goes; of one that is there nobody starts a Ray.

    Raises:
        InvalidSpec: names the limit that is too low.
    """
    if not isinstance(cluster, LocalCluster) or cluster.address is not None:
        return
    threads, _ = getrlimit(RLIMIT_NPROC)
    _, files = getrlimit(RLIMIT_NOFILE)  # Ray raises the lower of the two
    if os.geteuid() == 0:
        threads = RLIM_INFINITY  # root's are counted, and not limited
    granted = {
        "`ulimit -u`": (threads, RAYS_THREADS),
        "pids.max of the control group": (threads_left(), RAYS_THREADS),
        "`ulimit -n`": (files, RAYS_DESCRIPTORS),
    }
    for name, (most, wanted) in granted.items():
        if RLIM_INFINITY != most < wanted:
            raise InvalidSpec(
                f"{name} leaves {most:g}, but starting Ray for this job needs at least {wanted}: "
                "raise it, or set cluster: {kind: inline}"
            )


def refuse_full_disk(spec: BatchInferenceSpec) -> None:
    """See that a Ray of the job's own has room for its files, and may write them.

    It would wait half a minute for one that nobody could write, in each attempt.

    Raises:
        InvalidSpec: names the variable that says where they lie, and the folder.
    """
    given = {**os.environ, **spec.environment.env_vars}
    variable = "TMPDIR" if "RAY_TMPDIR" not in given else "RAY_TMPDIR"
    folder = given.get(variable, os.path.join(os.sep, "tmp"))  # as Ray itself looks for it
    if not os.path.exists(folder):  # Ray makes it
        return
    way_out = "set RAY_TMPDIR to a writable folder with free space"
    if not os.access(folder, os.W_OK | os.X_OK):
        problem = f"is not writable, and Ray keeps its logs and sockets there: {way_out}"
        raise InvalidSpec.at(variable, folder, problem)
    free = shutil.disk_usage(folder).free
    if free < RAYS_FILES:
        problem = (
            f"has {free >> 20} MiB left, and Ray keeps its logs there, and rows that do not fit "
            f"into memory: free some space, or {way_out}"
        )
        raise InvalidSpec.at(variable, folder, problem)


def packages_lacking(spec: BatchInferenceSpec) -> list[str]:
    """Requirements that the packages installed here do not meet."""
    return [each for each in spec.environment.pip if not is_met(each)]


def is_met(line: str) -> bool:
    """Whether a requirement is known to be met; of a file's or a URL's nobody can say."""
    try:
        wanted = Requirement(line)
        if wanted.marker and not wanted.marker.evaluate():
            return True
        is_here = wanted.specifier.contains(version(wanted.name), prereleases=True)
        return not wanted.url and is_here and all(map(is_met, needs_of_extras(wanted)))
    except (InvalidRequirement, PackageNotFoundError):
        return False


def needs_of_extras(wanted: Requirement) -> Iterator[str]:
    """What a package needs only for the extras asked for: it may be here without."""
    for line in requires(wanted.name) or ():
        needed = Requirement(line)
        marker, needed.marker = needed.marker, None
        if marker is None or marker.evaluate({"extra": ""}):
            continue  # it came with the package
        if any(marker.evaluate({"extra": extra}) for extra in wanted.extras):
            yield str(needed)


def lacks_memory(spec: BatchInferenceSpec) -> bool:
    """Whether a replica is to have more memory than there is."""
    return (spec.resources.memory_gb or 0.0) > memory_gib()


def memory_gib() -> float:
    """This machine's memory."""
    return memory() / GIB
