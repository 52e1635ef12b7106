"""`longrun evaluate`: the long-run reward of a run's policies."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longrun.cli.options import Parser, add_trust_option, parse, whole

if TYPE_CHECKING:
    from longrun.learning.runs.evaluation_report import EvaluationReport

DESCRIPTION = """\
Run each replica's policy for a fixed number of steps and print its average reward with a 95 %
interval, beside the episode metrics and the rates of costs. Where no episode ends, the first steps
are left out until the reward has settled. The policy is deterministic, unless it
was trained with limits on costs, which hold for actions that are drawn.
"""

EXAMPLES = """\
example: longrun evaluate runs/swimmer --steps 50000"""


def evaluate_command(arguments: list[str]) -> int:
    given = parse(_parser(), arguments)
    from longrun.learning.algorithms import agent_of
    from longrun.learning.options.config_options import differing, value_text
    from longrun.learning.train import checkpoint

    saved = checkpoint.load(given["run"])
    loading = {name: given[name] for name in ("trust", "step_timeout") if name in given}
    how = {name: given.get(name) for name in ("warmup", "deterministic", "seed")}
    lines, found, varied = [], [], differing(saved.spec.configs)
    for replica, seed in enumerate(saved.spec.seeds):
        kind = agent_of(saved.spec.algorithm)
        agent = kind.from_checkpoint(saved, given["run"], replica=replica, **loading)
        report = agent.evaluate(given.get("steps", 10_000), **how)
        setting = {name: getattr(agent.config, name) for name in varied}
        texts = [f"{name}={value_text(value)}" for name, value in setting.items()]
        lines.append(f"{' '.join([f'{replica} (seed {seed})', *texts])}: {report}")
        entry: dict[str, Any] = {"replica": replica, "seed": seed, "trained_steps": agent.steps_}
        if varied:  # limits as an object
            entry["setting"] = {n: dict(v) if n == "limits" else v for n, v in setting.items()}
        found.append(entry | as_json(report))
    if given.get("json"):
        print(json.dumps(found, indent=2))
    else:
        which = "Deterministic" if report.deterministic else "Stochastic"
        trained = dict.fromkeys(f"{each['trained_steps']:,}" for each in found)
        print(f"{which} policy after {' or '.join(trained)} steps of training", *lines, sep="\n")
    return 0


def as_json(report: EvaluationReport) -> dict[str, Any]:
    """A report's fields, with None for numbers that JSON does not have."""
    fields = dataclasses.asdict(report)
    costs = {
        name: {n: v if math.isfinite(v) else None for n, v in rate._asdict().items()}
        for name, rate in fields.pop("costs").items()
    }
    return {n: v if math.isfinite(v) else None for n, v in fields.items()} | {"costs": costs}


def _parser() -> Parser:
    parser = Parser(prog="longrun evaluate", description=DESCRIPTION, epilog=EXAMPLES)
    parser.add_argument("run", type=Path, help="run folder or saved agent")
    parser.add_argument(
        "--steps", type=whole, metavar="N", help="steps of the evaluation (default: 10000)"
    )
    parser.add_argument(
        "--warmup",
        type=whole,
        metavar="N",
        help="steps of each environment before these, which do not count (default: measured, within"
        " the steps)",
    )
    drawn = parser.add_mutually_exclusive_group()
    drawn.add_argument(
        "--stochastic",
        dest="deterministic",
        action="store_false",
        help="draw the actions, as in training",
    )
    drawn.add_argument(
        "--deterministic",
        action="store_true",
        help="take the most likely action, or the mean, also with limits",
    )
    parser.add_argument(
        "--seed", type=int, metavar="N", help="of the environments (default: the replica's)"
    )
    parser.add_argument(
        "--step-timeout",
        type=float,
        metavar="SECONDS",
        help="longest time of one environment step or reset, after which the evaluation ends with"
        " an error (default: 300; 0: no limit)",
    )
    parser.add_argument("--json", action="store_true", help="print a list of reports as JSON")
    add_trust_option(parser)
    return parser
