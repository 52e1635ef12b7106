"""`longrun export`: a policy as an ONNX file."""

from __future__ import annotations

from pathlib import Path

from longrun.cli.options import Parser, parse

DESCRIPTION = """\
Write the policy of a run or saved agent as an ONNX file, with standardisation, masks and bounds
inside, after comparing both on random observations. For Python there is longrun.load_policy(RUN),
which needs NumPy alone.
"""

EXAMPLES = """\
example: longrun export runs/swimmer --out policy.onnx"""


def export_command(arguments: list[str]) -> int:
    parser = Parser(prog="longrun export", description=DESCRIPTION, epilog=EXAMPLES)
    parser.add_argument("run", type=Path, help="run folder or saved agent")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="file to write (default: policy.onnx)"
    )
    parser.add_argument(
        "--replica", type=int, metavar="K", help="which replica of the run (default: 0)"
    )
    given = parse(parser, arguments)
    from longrun.learning.policy.policy import load_policy

    out = given.get("out", Path("policy.onnx"))
    load_policy(given["run"], replica=given.get("replica", 0)).export(out)
    print(f"wrote {out}")
    return 0
