"""`longrun evaluate`: the long-run reward of a run's policies."""

from __future__ import annotations

from pathlib import Path

from longrun.cli.options import Parser, add_trust_option, parse, whole

DESCRIPTION = """\
Run each replica's deterministic policy for a fixed number of steps and print its average reward
with a 95 % interval from batch means, beside the episode metrics.
"""

EXAMPLES = """\
example: longrun evaluate runs/swimmer --steps 50000"""


def evaluate_command(arguments: list[str]) -> int:
    parser = Parser(prog="longrun evaluate", description=DESCRIPTION, epilog=EXAMPLES)
    parser.add_argument("run", type=Path, help="run folder or saved agent")
    parser.add_argument(
        "--steps", type=whole, metavar="N", help="steps of the evaluation (default: 10000)"
    )
    add_trust_option(parser)
    given = parse(parser, arguments)
    from longrun.algorithms import AGENTS
    from longrun.results.tables import print_reports
    from longrun.train import checkpoint

    saved = checkpoint.load(given["run"])
    kind = AGENTS[saved.algorithm]
    rows = []
    for replica, seed in enumerate(saved.seeds):
        agent = kind.from_checkpoint(
            saved, given["run"], replica=replica, trust=given.get("trust", False)
        )
        report = agent.evaluate(given.get("steps", 10_000))
        rows.append((f"{replica} (seed {seed}) after {agent.steps_:,} steps", report))
    print_reports(rows)
    return 0
