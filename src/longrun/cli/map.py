"""`longrun map`: the learned policy of a run, drawn beside the optimal one."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longrun.cli.options import Parser, parse, whole

if TYPE_CHECKING:
    from longrun.agent import Agent
    from longrun.experiments.policy_comparison import Comparison

WALLS = 0.01
"""Share of time at the walls of the box from which on a note tells of it."""

DESCRIPTION = """\
Draw what a run has learned beside what is optimal. The map has the learned policy on the left, the
optimal one on the right, and a dot wherever the learned policy does something else. Three queues
are shown in slices. It is for runs on networks of two or three queues (jax:criss-cross,
jax:n-model, jax:tandem, jax:reentrant), jax:access-control and jax:inventory.

Both average costs are exact, in a box of queue lengths: a customer who comes to a full queue is
turned away, which is kind to policies that let queues grow. A note tells when that matters. What is
optimal close to a wall is the box's doing, and no advice for a network without one.
"""

EXAMPLES = """\
examples:
  longrun train apo --env jax:criss-cross --env-args regime=BM --out runs/criss-cross
  longrun map runs/criss-cross --out policy.png
  longrun map runs/criss-cross --replica 2 --size 50 --out third-seed.svg
"""


def map_command(arguments: list[str]) -> int:
    parser = Parser(prog="longrun map", description=DESCRIPTION, epilog=EXAMPLES)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("run", type=Path, help="run folder or saved agent")
    parser.add_argument(
        "--replica", type=whole, metavar="N", help="which seed or setting of the run (default: 0)"
    )
    parser.add_argument(
        "--size",
        type=whole,
        metavar="N",
        help="customers of each class that the box holds (default: 60 for two queues, 30 for"
        " three)",
    )
    parser.add_argument("--out", type=Path, help="picture: png, pdf or svg (default: policy.png)")
    given = parse(parser, arguments)
    from longrun.experiments.policy_maps import policy_map
    from longrun.tabular.figures import require_picture

    out = given.get("out", Path("policy.png"))
    require_picture(out)
    agent = _agent(given["run"], given.get("replica", 0))
    found = _compared(agent, given)
    policy_map(found, out)
    print(f"{found.mdp.name}: {found}")
    if found.at_walls > WALLS:
        print(
            f"note: the learned policy spends {100 * found.at_walls:.1f} % of its time at the walls"
            " of the box, which flatters it: without them it costs more; give a larger --size"
        )
    print(f"wrote {out}")
    return 0


def _agent(run: Path, replica: int) -> Agent:
    """A replica of a run on an environment that may have a map."""
    from longrun.agent import AGENTS
    from longrun.envs.make import require_id
    from longrun.experiments.policy_comparison import no_model
    from longrun.train import checkpoint

    saved = checkpoint.load(run)
    if not saved.env.startswith("jax:"):  # others might not even be installed
        require_id(saved.env, run)
        raise ValueError(no_model(saved.env))
    return AGENTS[saved.algorithm]._of(saved, run, replica=replica)


def _compared(agent: Agent, given: dict[str, Any]) -> Comparison:
    from rich.console import Console

    from longrun.envs.native.protocol import Environment
    from longrun.envs.native.queueing import QueueingEnv
    from longrun.experiments.policy_comparison import (
        compare,
        exact_model,
        learned_policy,
        require_mappable,
    )

    assert isinstance(agent._opened, Environment)
    env, size = require_mappable(agent._opened), given.get("size")
    console = Console(stderr=True, soft_wrap=True)  # a warning stays on one line
    with console.status(f"solving {env.name}"):
        learned = learned_policy(env, agent.config, agent._snapshot.state, size)
        return compare(exact_model(env, size), learned, boxed=isinstance(env, QueueingEnv))
