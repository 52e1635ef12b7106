"""Reachability: classes of a chain, its period, and the structure of a decision process."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph

from longrun.base.errors import InputError
from longrun.exact.tabular.mdp import MDP, Matrix

Labels = NDArray[np.int32]


@dataclass(frozen=True)
class ChainStructure:
    """Classes of states that can reach each other, and the recurrent ones, which are never left."""

    labels: Labels
    """[S] the class of each state."""
    recurrent: list[NDArray[np.intp]]
    """States of each class that is never left."""
    graph: sparse.csr_array

    @property
    def irreducible(self) -> bool:
        """Every state can reach every other: the paper calls this ergodic."""
        return len(self.recurrent[0]) == len(self.labels)

    @property
    def unichain(self) -> bool:
        """One recurrent class: the gain does not depend on the start."""
        return len(self.recurrent) == 1

    @cached_property
    def period(self) -> int:
        """Greatest common divisor of all cycles' lengths (of all recurrent classes)."""
        periods = [_period(self.graph, states) for states in self.recurrent]
        return int(np.lcm.reduce(periods))

    def require_unichain(self, what: str) -> None:
        if not self.unichain:
            first, second = (_some(states) for states in self.recurrent[:2])
            raise InputError(
                f"{what} has {len(self.recurrent)} recurrent classes (states {first} and {second}, "
                "for example), so its gain depends on the start; make one class reachable from all"
            )

    def require_irreducible(self, what: str) -> None:
        self.require_unichain(what)
        if not self.irreducible:
            transient = np.setdiff1d(np.arange(len(self.labels)), self.recurrent[0])
            raise InputError(
                f"{what} needs a chain in which every state can be reached from every other; "
                f"state {transient[0]} is never visited again; give its policy a way there"
            )


def chain_structure(transition: Matrix) -> ChainStructure:
    """The structure of one chain [S, S]."""
    graph = sparse.csr_array(transition)
    labels, closed = _classes(graph)
    order = np.argsort(labels, kind="stable")
    members = np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)
    return ChainStructure(labels, [members[c] for c in closed], graph)


@dataclass(frozen=True)
class Structure:
    """Properties of a decision process under all or under some policies."""

    classes: int
    """Sets of states that some policy can move between, both ways."""
    end_components: int
    """Maximal sets in which some policy can stay forever and reach every state."""
    communicating: bool
    """Some policy leads from every state to every other."""
    weakly_communicating: bool
    """One end component: the optimal gain is the same from every start."""
    unichain: bool | None
    """No policy has two recurrent classes; None where this was not decided (it is NP-hard)."""
    period: int
    """Period of the chain that takes every action: 1 means that it is aperiodic."""


def structure(mdp: MDP) -> Structure:
    """Communicating classes, end components, unichain and period of a decision process."""
    everything = chain_structure(_union(mdp))
    communicating = everything.irreducible
    components = 1 if communicating else int(end_components(mdp).max() + 1)
    unichain = None if components == 1 else False
    if components == 1 and (mdp.num_actions == 1 or _has_unavoidable_state(mdp)):
        unichain = True
    return Structure(
        classes=int(everything.labels.max()) + 1,
        end_components=components,
        communicating=communicating,
        weakly_communicating=components == 1,
        unichain=unichain,
        period=everything.period,
    )


def require_constant_gain(mdp: MDP) -> None:
    """Refuse a model whose optimal gain may depend on the start."""
    if _classes(_union(mdp))[0].max() == 0:
        return
    components = end_components(mdp)
    count = int(components.max()) + 1
    if count > 1:
        first, second = (_some(np.flatnonzero(components == c)) for c in (0, 1))
        raise InputError(
            f"the model has {count} sets of states in which a policy can stay forever (states "
            f"{first} and {second}, for example), so its optimal gain may depend on the start; "
            "solve reachable(mdp)[0], what the initial law leads to, or connect them"
        )


def reachable(mdp: MDP) -> tuple[MDP, NDArray[np.intp]]:
    """The part of a model that its initial law can reach, and the indices of its states."""
    start = sparse.csr_array(mdp.initial[None, :])  # one more state, which leads to all of these
    blocks = [[_union(mdp), None], [start, sparse.csr_array((1, 1))]]
    graph = sparse.block_array(blocks, format="csr")
    found = csgraph.breadth_first_order(graph, mdp.num_states, return_predecessors=False)
    states = np.sort(found[1:]).astype(np.intp)
    if len(states) == mdp.num_states:
        return mdp, states
    parts = (mdp.kernel[a * mdp.num_states + states][:, states] for a in range(mdp.num_actions))
    matrices = [sparse.csr_array(part) for part in parts]
    part = MDP(
        matrices,
        mdp.rewards[states],
        available=mdp.available[states],
        initial=mdp.initial[states],
        costs={name: cost[states] for name, cost in mdp.costs.items()},
        name=f"{mdp.name}, reachable part" if mdp.name else "",
        actions=mdp.actions,
        cost=mdp.cost,
    )
    if not isinstance(mdp.labels, range):
        part.labels = [mdp.labels[s] for s in states]
    return part, states


def end_components(mdp: MDP) -> Labels:
    """[S] the maximal end component of each state, -1 for states where no policy can remain.

    Actions that may leave their class are removed and classes recomputed, until none is removed.
    """
    states = mdp.num_states
    rows, targets = sparse.coo_array(mdp.kernel).coords
    origins = rows % states
    usable = mdp.available.T.ravel().copy()
    leaves = np.ones(1, bool)
    while leaves.any():
        kept = usable[rows]
        edges = np.ones(int(kept.sum())), (origins[kept], targets[kept])
        labels, _ = _classes(sparse.csr_array(edges, (states, states)))
        leaves = kept & (labels[origins] != labels[targets])
        usable[rows[leaves]] = False
    held = usable.reshape(-1, states).any(0)
    _, names = np.unique(labels[held], return_inverse=True)
    result = np.full(states, -1, np.int32)
    result[held] = names
    return result


def _has_unavoidable_state(mdp: MDP) -> bool:
    """Whether one of the likeliest states can be avoided by no policy: then all are unichain."""
    if mdp.num_states > 5000:
        return False
    busiest = np.argsort(-np.asarray(mdp.kernel.sum(0)).ravel(), kind="stable")[:50]
    return any(not _can_avoid(mdp, int(state)).any() for state in busiest)


def _can_avoid(mdp: MDP, state: int) -> NDArray[np.bool_]:
    """[S] where some policy never reaches `state`: the greatest set that actions can stay in."""
    inside = np.ones(mdp.num_states, bool)
    inside[state] = False
    while True:
        leaving = (mdp.kernel @ (~inside).astype(float)).reshape(mdp.num_actions, -1).T > 0
        stays = inside & (mdp.available & ~leaving).any(1)
        if (stays == inside).all():
            return inside
        inside = stays


def _union(mdp: MDP) -> sparse.csr_array:
    """[S, S] an edge wherever some action leads."""
    edges = sparse.csr_array(mdp.kernel)
    states = mdp.num_states
    total = edges[:states]
    for a in range(1, mdp.num_actions):
        total = total + edges[a * states : (a + 1) * states]
    return total


def _classes(graph: sparse.csr_array) -> tuple[Labels, NDArray[np.int32]]:
    """Strongly connected classes [S] and the indices of those that no edge leaves."""
    count, labels = csgraph.connected_components(graph, connection="strong")
    edges = graph.tocoo()
    origin, target = labels[edges.coords[0]], labels[edges.coords[1]]
    closed = np.setdiff1d(np.arange(count, dtype=np.int32), origin[origin != target])
    return labels, closed


def _period(graph: sparse.csr_array, states: NDArray[np.intp]) -> int:
    """Greatest common divisor of the differences in breadth-first level along the edges."""
    part = graph if len(states) == graph.shape[0] else graph[states][:, states]
    levels = csgraph.shortest_path(part, unweighted=True, indices=0) if len(states) > 1 else [0]
    levels = np.asarray(levels, int)
    edges = part.tocoo()
    return int(np.gcd.reduce(levels[edges.coords[0]] + 1 - levels[edges.coords[1]]))


def _some(states: NDArray[np.intp]) -> str:
    return ", ".join(map(str, states[:3])) + (", ..." if len(states) > 3 else "")
