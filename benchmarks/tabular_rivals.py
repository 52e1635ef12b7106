"""Solve the average-cost criss-cross network with one of the other tabular MDP solvers.

Run by the Python that holds the rivals, one solver per process:

    python tabular_rivals.py SOLVER --size N --regime BM|BH --tolerance 1e-6 [--timeout S]

SOLVER is mdpsolver, mdpax or stormpy. The model is built here, and each solver gets the method
and settings that were fastest for it. One line of JSON goes to stdout; build_s counts the
arrays and their handing over to the solver, solve_s the solver's own work alone. All start from
zero values. stormpy takes the tolerance as relative; the other two take an absolute span, which
is the tolerance times the regime's optimal cost without truncation.
"""

import argparse
import importlib.metadata
import itertools
import json
import os
import resource
import subprocess
import sys
import time

import numpy as np
import scipy.sparse

REGIMES = {"BM": (0.6, 1.0, 2.829), "BH": (0.9, 1.0, 15.228)}  # lam, mu2, untruncated cost
ACTIONS, EVENTS = 3, 4


def event_probabilities(regime):
    """Chances of an arrival to queue 1, to queue 3, a class 2 service, a service by server 1."""
    lam, mu2, _ = REGIMES[regime]
    rates = np.array([lam, lam, mu2, 2.0])
    return rates / rates.sum()


def successors(size):
    """Next state for each (state, action, event), and the cost of each state."""
    side = size + 1
    state = np.arange(side**3, dtype=np.int32)
    x1, x2, x3 = state // side**2, state // side % side, state % side
    table = np.empty((side**3, ACTIONS, EVENTS), np.int32)
    table[:, :, 0] = np.where(x1 < size, state + side**2, state)[:, None]
    table[:, :, 1] = np.where(x3 < size, state + 1, state)[:, None]
    table[:, :, 2] = np.where(x2 > 0, state - side, state)[:, None]
    table[:, 0, 3] = state
    table[:, 1, 3] = np.where((x1 > 0) & (x2 < size), state - side**2 + side, state)
    table[:, 2, 3] = np.where(x3 > 0, state - 1, state)
    return table, x1 + x2 + x3


def sparse_model(size, regime):
    """Transition matrix with one row per (state, action), self-loops merged; state costs."""
    table, cost = successors(size)
    rows = len(cost) * ACTIONS
    starts = np.arange(rows + 1) * EVENTS
    chances = np.tile(event_probabilities(regime), rows)
    matrix = scipy.sparse.csr_matrix((chances, table.ravel(), starts), shape=(rows, len(cost)))
    matrix.sum_duplicates()
    return matrix, cost.astype(float)


def span_tolerance(args):
    return args.tolerance * REGIMES[args.regime][2]


def nested(values, starts):
    """Values of a CSR matrix as the [state][action][entry] lists that mdpsolver reads."""
    values, starts = values.tolist(), starts.tolist()
    rows = [values[i:j] for i, j in itertools.pairwise(starts)]
    return [rows[i : i + ACTIONS] for i in range(0, len(rows), ACTIONS)]


def solve_mdpsolver(args):
    """Modified policy iteration; mdpsolver reports no gain, so one backup of its values gives it.

    Its Gauss-Seidel and SOR updates never meet the stopping rule under the average criterion.
    """
    os.environ["OMP_NUM_THREADS"] = str(args.threads)
    os.environ["OMP_WAIT_POLICY"] = "passive"
    import mdpsolver

    start = time.perf_counter()
    matrix, cost = sparse_model(args.size, args.regime)
    model = mdpsolver.model()
    model.mdp(
        rewards=[[-c] * ACTIONS for c in cost.tolist()],
        tranMatProbs=nested(matrix.data, matrix.indptr),
        tranMatColumns=nested(matrix.indices, matrix.indptr),
    )
    built = time.perf_counter()
    model.solve(
        algorithm="mpi",
        criterion="average",
        tolerance=span_tolerance(args),
        parallel=args.threads > 1,
    )
    solved = time.perf_counter()
    values = -np.array(model.getValueVector())
    change = cost + (matrix @ values).reshape(-1, ACTIONS).min(axis=1) - values
    gain = (change.max() + change.min()) / 2
    method = f"modified policy iteration, 100 sweeps, {args.threads} threads"
    return gain, built - start, solved - built, method, None


def mdpax_problem(size, regime):
    """The model as an mdpax problem whose state vector is [index, successors, cost].

    Reading the successors from the state's own row is faster than computing them.
    """
    import jax.numpy as jnp
    from mdpax.core.problem import Problem

    table, cost = successors(size)
    index = np.arange(len(cost), dtype=np.int32)
    states = np.column_stack([index, table.reshape(len(cost), -1), cost.astype(np.int32)])
    chances = jnp.asarray(event_probabilities(regime))

    class CrissCross(Problem):
        name = "criss-cross"

        def _construct_state_space(self):
            return jnp.asarray(states)

        def _construct_action_space(self):
            return jnp.arange(ACTIONS, dtype=jnp.int32)

        def _construct_random_event_space(self):
            return jnp.arange(EVENTS, dtype=jnp.int32)

        def state_to_index(self, state):
            return state[0]

        def random_event_probability(self, state, action, random_event):
            return chances[random_event[0]]

        def transition(self, state, action, random_event):
            following = state[1 + action[0] * EVENTS + random_event[0]]
            return following[None], -state[-1].astype(chances.dtype)

    return CrissCross()


def solve_mdpax(args):
    """Relative value iteration in double precision (single cannot reach a span of 1e-6)."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax

    jax.config.update("jax_enable_x64", True)
    from mdpax.solvers.relative_value_iteration import RelativeValueIteration

    start = time.perf_counter()
    solver = RelativeValueIteration(
        mdpax_problem(args.size, args.regime),
        epsilon=span_tolerance(args),
        max_batch_size=4096,
        verbose=0,
    )
    built = time.perf_counter()
    result = solver.solve(max_iterations=10**6)
    jax.block_until_ready(result.policy)
    solved = time.perf_counter()
    method = "relative value iteration, float64, batches of 4096 states"
    gain = -float(result.info.gain)
    return gain, built - start, solved - built, method, int(result.info.iteration)


def storm_model(matrix, cost):
    """The sparse Storm MDP with the costs as state rewards."""
    import stormpy

    rows, states = matrix.shape
    builder = stormpy.datastructures.SparseMatrixBuilder[float](
        rows=rows,
        columns=states,
        entries=matrix.nnz,
        has_custom_row_grouping=True,
        row_groups=states,
    )
    row = np.repeat(np.arange(rows), np.diff(matrix.indptr))
    groups = list(range(0, rows, ACTIONS))
    builder.add_next_values(row.tolist(), matrix.indices.tolist(), matrix.data.tolist(), groups)
    labels = stormpy.models.StateLabeling(states)
    labels.add_label("init")
    labels.add_label_to_state("init", 0)
    rewards = stormpy.models.SparseRewardModel[float](optional_state_reward_vector=cost.tolist())
    components = stormpy.models.SparseModelComponents[float](
        transition_matrix=builder.build(), state_labeling=labels, reward_models={"cost": rewards}
    )
    return stormpy.models.SparseMdp[float](components)


def solve_stormpy(args):
    """Storm's long-run average value iteration on the sparse engine (its LP is far slower)."""
    import stormpy
    from stormpy import developer

    start = time.perf_counter()
    model = storm_model(*sparse_model(args.size, args.regime))
    options = ["--lra:nondetmethod", "vi", "--lra:precision", str(args.tolerance)]
    developer.set_from_exploded_string(options)
    environment = developer.EnvironmentBuilder.build_environment()
    prop = stormpy.parse_properties('R{"cost"}min=? [LRA]')[0]
    built = time.perf_counter()
    result = stormpy.model_checking(model, prop, environment=environment)
    solved = time.perf_counter()
    method = "LRA value iteration, sparse engine, relative precision"
    return result.get_value(0), built - start, solved - built, method, None


SOLVERS = {"mdpsolver": solve_mdpsolver, "mdpax": solve_mdpax, "stormpy": solve_stormpy}


def describe(args):
    return {
        "solver": args.solver,
        "version": importlib.metadata.version(args.solver),
        "size": args.size,
        "states": (args.size + 1) ** 3,
        "regime": args.regime,
    }


def solve(args):
    gain, build_s, solve_s, method, iterations = SOLVERS[args.solver](args)
    return describe(args) | {
        "gain": float(gain),
        "build_s": round(build_s, 3),
        "solve_s": round(solve_s, 3),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "method": method,
        "iterations": iterations,
    }


def unsolved(args, reason):
    """The record of a run that gave no answer."""
    empty = dict.fromkeys(("gain", "build_s", "solve_s", "peak_mb", "method", "iterations"))
    return describe(args) | empty | {"error": reason}


def solve_within(args, argv):
    """Solve in a child process, which can be stopped while it is inside compiled code."""
    command = [sys.executable, os.path.abspath(__file__), *argv, "--timeout", "0"]
    try:
        child = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=args.timeout)
    except subprocess.TimeoutExpired:
        return unsolved(args, f"no answer within {args.timeout:g} s")
    if child.returncode:
        return unsolved(args, f"exit status {child.returncode}")
    return json.loads(child.stdout.splitlines()[-1])


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("solver", choices=SOLVERS)
    parser.add_argument("--size", type=int, required=True, help="customers at most per queue")
    parser.add_argument("--regime", choices=REGIMES, required=True)
    parser.add_argument("--tolerance", type=float, default=1e-6, help="relative, on the gain")
    parser.add_argument("--timeout", type=float, default=0, help="seconds; 0 for no limit")
    parser.add_argument("--threads", type=int, default=0, help="for mdpsolver; 0 to choose")
    args = parser.parse_args(argv)
    if not args.threads:  # below this size mdpsolver's threads cost more than they bring
        args.threads = os.cpu_count() if args.size > 50 else 1
    return args


def main(argv):
    args = parse(argv)
    print(json.dumps(solve_within(args, argv) if args.timeout else solve(args)))


if __name__ == "__main__":
    main(sys.argv[1:])
