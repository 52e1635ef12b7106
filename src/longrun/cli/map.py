"""`longrun map`: the learned policy of a run, drawn beside the optimal one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from longrun.base.errors import InputError
from longrun.cli.options import Parser, parse, whole

if TYPE_CHECKING:
    from longrun.lab.policy_map.exact_comparison import PolicyComparison
    from longrun.learning.agent import Agent

CLASSES = 4
"""Recurrent classes whose averages are printed."""
WALLS = 0.01
"""Share of time at the walls of the box above which a note is printed."""

DESCRIPTION = """\
Draw the policy of a run beside the optimal one. The map has the learned policy on the left, the
optimal one on the right, and a dot at each state where the learned policy chooses another action.
Three queues are shown in slices. It is for runs on networks of two or three queues
(jax:criss-cross, jax:n-model, jax:tandem, jax:reentrant), jax:access-control, jax:inventory and
jax:maintenance.

Both average costs are exact for a box of queue lengths: a customer who arrives at a full queue is
turned away, which favours policies that let queues grow. A note is printed when that matters. Near
the walls of the box the optimal policy depends on them; it says nothing about an unbounded network.
"""

EXAMPLES = """\
examples:
  longrun train apo --env jax:criss-cross --env-args regime=BM --out runs/criss-cross
  longrun map runs/criss-cross --out policy.png
  longrun map runs/criss-cross --replica 2 --size 50 --out third-seed.svg
"""


def map_command(arguments: list[str]) -> int:
    parser = Parser(prog="longrun map", description=DESCRIPTION, epilog=EXAMPLES)
    parser.add_argument("run", type=Path, help="run folder or saved agent")
    parser.add_argument(
        "--replica", type=whole, metavar="N", help="index of the replica in the run (default: 0)"
    )
    parser.add_argument(
        "--size",
        type=whole,
        metavar="N",
        help="most customers of each class in the box (default: 60 for two queues, 30 for three)",
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="picture: png, pdf or svg (default: policy.png)"
    )
    given = parse(parser, arguments)
    from rich.console import Console

    from longrun.base.picture_files import require_picture
    from longrun.lab.policy_map.exact_comparison import compare_run
    from longrun.lab.policy_map.picture import policy_map

    out = given.get("out", Path("policy.png"))
    require_picture(out)
    agent = _agent(given["run"], given.get("replica", 0))
    env: Any = agent.loop.env
    with Console(stderr=True, soft_wrap=True).status(f"solving {env.name}"):  # warnings in one line
        found = compare_run(env, agent.config, agent.state, given.get("size"))
    policy_map(found, out)
    print(f"{found.mdp.name}: {found}")
    if len(found.classes) > 1:
        print(_note_of_classes(found))
    if found.at_walls > WALLS:
        print(
            f"note: the learned policy spends {100 * found.at_walls:.1f} % of its time at the walls"
            " of the box, which understate its cost; give a larger --size"
        )
    print(f"wrote {out}")
    return 0


def _note_of_classes(found: PolicyComparison) -> str:
    sign = -1 if found.mdp.cost else 1
    ends = ", ".join(
        f"{sign * each.gain:.5g} with probability {each.probability:.3g}"
        for each in found.classes[:CLASSES]
    )
    more = ", ..." if len(found.classes) > CLASSES else ""
    return (
        f"note: the learned policy has {len(found.classes)} recurrent classes, and its average is"
        f" over where it ends from the model's start: {ends}{more}"
    )


def _agent(run: Path, replica: int) -> Agent:
    """A replica of a run. Raises InputError if its environment cannot have a map."""
    from longrun.lab.policy_map.exact_comparison import no_map
    from longrun.learning.algorithms import agent_of
    from longrun.learning.envs.factories import require_saved
    from longrun.learning.train import checkpoint

    saved = checkpoint.load(run)
    env = saved.spec.env
    if not env.startswith("jax:"):  # others might not even be installed
        require_saved(env, run, trust=True)  # nothing is imported here
        raise InputError(no_map(env))
    return agent_of(saved.spec.algorithm).from_checkpoint(saved, run, replica=replica)
