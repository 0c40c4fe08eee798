"""What no single value can show: keys of the configuration that contradict each other."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from minislurm.domain.comebacks import parse_requeue_limits
from minislurm.domain.configuration import Configuration, DomainSpec, License, Partition
from minislurm.domain.configuration_values import parse_levels
from minislurm.domain.gpu_links import link_problem
from minislurm.domain.resources import capability_number
from minislurm.domain.tres import parse_weights

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*\Z")
_PLACEHOLDER = re.compile(r"\{([^}]*)\}")


def problems(configuration: Configuration) -> Iterator[tuple[str, str]]:
    """Yields (where, what is wrong): `("[timers] node_suspect_s = 1.0", "must be above …")`."""
    yield from _sections(configuration)
    yield from _nodes(configuration)
    known: set[str] = {spec.name for spec in configuration.nodes}
    yield from _partitions(configuration.partitions, known)
    yield from _topology(configuration.topology, known)
    yield from _licenses(configuration.licenses)


def _sections(configuration: Configuration) -> Iterator[tuple[str, str]]:
    timers = configuration.timers
    if not _NAME.match(configuration.cluster.name):
        yield f'[cluster] name = "{configuration.cluster.name}"', "must be letters, digits, '_', '.' and '-'"
    if not configuration.cluster.controller_host:
        yield '[cluster] controller_host = ""', "must be a host name or an address"
    if timers.node_suspect_s <= timers.heartbeat_interval_s:
        yield (
            f"[timers] node_suspect_s = {timers.node_suspect_s:g}",
            f"must be above heartbeat_interval_s ({timers.heartbeat_interval_s:g})",
        )
    if timers.node_timeout_s <= 2 * timers.node_suspect_s:
        # Before that a node could not tell a controller that is away from being cut off itself.
        yield (
            f"[timers] node_timeout_s = {timers.node_timeout_s:g}",
            f"must be more than twice node_suspect_s ({timers.node_suspect_s:g})",
        )
    try:
        parse_weights(configuration.accounts.billing_weights)
    except ValueError as error:
        yield f'[accounts] billing_weights = "{configuration.accounts.billing_weights}"', str(error)
    try:
        parse_requeue_limits(configuration.jobs.max_requeues)
    except ValueError as error:
        yield f'[jobs] max_requeues = "{configuration.jobs.max_requeues}"', str(error)
    try:
        parse_levels(configuration.scheduler.mlfq_levels)
    except ValueError as error:
        yield f'[scheduler] mlfq_levels = "{configuration.scheduler.mlfq_levels}"', str(error)
    states = configuration.node.health_check_states
    if not states or set(states.split(",")) - {"any", "idle", "alloc", "mixed", "start_only"}:
        where = f'[node] health_check_states = "{states}"'
        yield where, 'must be "any", or some of "idle,alloc,mixed,start_only"'
    for unknown in _PLACEHOLDER.findall(configuration.node.spool_dir):
        if unknown != "node":
            where = f'[node] spool_dir = "{configuration.node.spool_dir}"'
            yield where, f"{{{unknown}}} stands for nothing; there is {{node}}"


def _nodes(configuration: Configuration) -> Iterator[tuple[str, str]]:
    for name in _repeated(spec.name for spec in configuration.nodes):
        yield f'[[nodes]] name = "{name}"', "this node is there twice"
    for spec in configuration.nodes:
        if not _NAME.match(spec.name):
            yield f'[[nodes]] name = "{spec.name}"', "must be letters, digits, '_', '.' and '-'"
        try:
            capability_number(spec.gpu_capability)
        except ValueError:
            where = f'[[nodes]] {spec.name}: gpu_capability = "{spec.gpu_capability}"'
            yield where, 'must be a compute capability such as "8.0"'
        problem = link_problem(spec.gpu_links, sum(group.count for group in spec.gpus))
        if problem:
            yield f"[[nodes]] {spec.name}: gpu_links", problem


def _partitions(partitions: tuple[Partition, ...], known: set[str]) -> Iterator[tuple[str, str]]:
    for name in _repeated(partition.name for partition in partitions):
        yield f'[[partitions]] name = "{name}"', "this partition is there twice"
    defaults = [partition.name for partition in partitions if partition.default]
    if len(defaults) > 1:
        yield f"[[partitions]] {defaults[1]}: default = true", f"{defaults[0]} is the default already"
    for partition in partitions:
        where = f"[[partitions]] {partition.name}:"
        if not _NAME.match(partition.name):
            yield f'[[partitions]] name = "{partition.name}"', "must be letters, digits, '_', '.' and '-'"
        yield from _node_names(where, partition.nodes, known)
        if not partition.nodes and known:
            yield f"{where} nodes", 'must name at least one node ("ALL" for every node)'
        yield from ((f"{where} {key}", what) for key, what in partition_problems(partition))


def partition_problems(partition: Partition) -> Iterator[tuple[str, str]]:
    """Yields ("min_nodes = 3", "is above …")."""
    if partition.max_nodes is not None and partition.min_nodes > partition.max_nodes:
        yield f"min_nodes = {partition.min_nodes}", f"is above max_nodes ({partition.max_nodes})"
    lowest, highest = partition.min_priority, partition.max_priority
    if lowest is not None and highest is not None and lowest > highest:
        yield f"min_priority = {lowest}", f"is above max_priority ({highest})"
    default, most = partition.default_time_s, partition.max_time_s
    if default is not None and most is not None and default > most:
        yield f"default_time_s = {default:g}", f"is above max_time_s ({most:g})"


def _topology(domains: tuple[DomainSpec, ...], known: set[str]) -> Iterator[tuple[str, str]]:
    by_name = {domain.name: domain for domain in domains}
    for name in _repeated(domain.name for domain in domains):
        yield f'[[topology]] name = "{name}"', "this domain is there twice"
    parents = {domain.parent for domain in domains}
    leaf_of: dict[str, str] = {}
    for domain in domains:
        where = f"[[topology]] {domain.name}:"
        if not _NAME.match(domain.name):
            yield f'[[topology]] name = "{domain.name}"', "must be letters, digits, '_', '.' and '-'"
        yield from _node_names(where, domain.nodes, known)
        if domain.nodes and domain.name in parents:
            yield f"{where} nodes", "a domain holds nodes or other domains, not both"
        if not domain.nodes and domain.name not in parents:
            yield where.rstrip(":"), "holds nothing; give it nodes or children"
        for node in domain.nodes:
            if leaf_of.setdefault(node, domain.name) != domain.name:
                yield f'{where} nodes = "{node}"', f"{node} is in {leaf_of[node]} already"
        if domain.parent and domain.parent not in by_name:
            yield f'{where} parent = "{domain.parent}"', _unknown("domain", domain.parent, by_name)
        elif _is_circular(domain, by_name):
            yield f'{where} parent = "{domain.parent}"', f"{domain.name} would lie inside itself"


def _licenses(licenses: tuple[License, ...]) -> Iterator[tuple[str, str]]:
    for name in _repeated(license.name for license in licenses):
        yield f'[[licenses]] name = "{name}"', "this license is there twice"
    for license in licenses:
        if not _NAME.match(license.name):
            yield f'[[licenses]] name = "{license.name}"', "must be letters, digits, '_', '.' and '-'"


def _is_circular(domain: DomainSpec, by_name: dict[str, DomainSpec]) -> bool:
    seen, name = {domain.name}, domain.parent
    while name in by_name and name not in seen:
        seen.add(name)
        name = by_name[name].parent
    return name == domain.name


def _node_names(where: str, nodes: tuple[str, ...], known: set[str]) -> Iterator[tuple[str, str]]:
    unknown = [name for name in nodes if name not in known]
    if unknown:
        more = f" (and {len(unknown) - 1} more)" if len(unknown) > 1 else ""
        yield f'{where} nodes = "{unknown[0]}"', _unknown("node", unknown[0], known) + more
    for name in _repeated(nodes):
        yield f'{where} nodes = "{name}"', f"{name} is there twice"


def _repeated(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


def _unknown(kind: str, name: str, known: Iterable[str]) -> str:
    return f"no such {kind}" + nearest(name, known)


def nearest(name: str, known: Iterable[str]) -> str:
    """ "; did you mean X?" where something known is close, else ""."""
    import difflib  # only where something is wrong: every command reads the configuration

    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else ""
