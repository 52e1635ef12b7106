"""The identity of an environment: equal if and only if it is defined and made in the same way."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit, TransformReward

from fake_workers import child_environment
from longrun.learning.envs.env_source import env_source
from longrun.queueing import Network, QueueingEnv
from longrun.tabular import MDP, solve, to_gymnasium
from tiny_envs import Drift

SCALE = 1.0


def source(env: Any) -> dict[str, Any]:
    is_maker = callable(env) and not isinstance(env, gymnasium.Env)
    return env_source(env, env() if is_maker else env)


def identity(env: Any) -> str:
    return str(source(env)["identity"])


# --- the text of the files ------------------------------------------------------------------

QUEUE = """
import gymnasium
from gymnasium.spaces import Box, Discrete

A, B, C, D, E = 1.0, 1.0, 1.0, 1.0, 1.0

class Base(gymnasium.Env):
    observation_space, action_space = Box(-1, 1, (1,)), Discrete(2)

class Queue(Base):
    def first(self):
        return A
    def second(self):
        return B
    def third(self):
        return C
    def fourth(self):
        return D
    def fifth(self):
        return E

def make():
    return Queue()
"""


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Imports a module that has this text, anew each time."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def load(text: str, module: str = "own_queue", folder: Path = tmp_path) -> Any:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{module}.py").write_text(text)
        monkeypatch.syspath_prepend(folder)
        monkeypatch.delitem(sys.modules, module, raising=False)
        importlib.invalidate_caches()
        return importlib.import_module(module)

    return load


@pytest.mark.parametrize("name", ["Queue", "make"])
@pytest.mark.parametrize("place", range(5))
def test_a_changed_global_is_another_environment(load: Any, name: str, place: int) -> None:
    """Whichever of the methods uses it."""
    numbers = ["1.0"] * 5
    first = identity(getattr(load(QUEUE), name))
    numbers[place] = "2.0"
    changed = QUEUE.replace("1.0, 1.0, 1.0, 1.0, 1.0", ", ".join(numbers))
    assert identity(getattr(load(changed), name)) != first
    assert identity(getattr(load(QUEUE), name)) == first


def test_the_file_of_a_base_class_counts(load: Any) -> None:
    derived = "from own_queue import Queue\nclass Fast(Queue):\n    pass\n"
    found = []
    for text in (QUEUE, QUEUE.replace("return E", "return -E"), QUEUE):
        load(text)
        found.append(identity(load(derived, "own_fast").Fast))
    assert found[0] == found[2] != found[1]


def test_the_file_of_what_is_inside_a_wrapper_counts(load: Any) -> None:
    found = []
    for text in (QUEUE, QUEUE.replace("return E", "return -E"), QUEUE):
        queue = load(text).Queue
        found.append((identity(TimeLimit(queue(), 9)), identity(partial(TimeLimit, queue(), 9))))
    assert found[0] == found[2]
    assert found[0][0] != found[1][0] and found[0][1] != found[1][1]


def test_files_of_installed_libraries_do_not_count(load: Any, tmp_path: Path) -> None:
    folder = tmp_path / "site-packages"
    one = identity(load(QUEUE, folder=folder).Queue)
    other = identity(load(QUEUE + "\n# a later version", folder=folder).Queue)
    assert one == other


def test_the_file_of_an_id_of_ones_own_counts(load: Any, monkeypatch: Any) -> None:
    found = []
    for text in (QUEUE, QUEUE + "\n# changed", QUEUE):
        monkeypatch.delitem(gymnasium.registry, "OwnQueue-v0", raising=False)
        load(text)
        gymnasium.register("OwnQueue-v0", "own_queue:Queue")
        made = gymnasium.make("OwnQueue-v0", disable_env_checker=True)
        found.append(env_source("OwnQueue-v0", made)["identity"])
    assert found[0] == found[2] != found[1]
    monkeypatch.delitem(gymnasium.registry, "OwnQueue-v0")


SHOW = """
import json, sys
from functools import partial
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
import gymnasium, numpy as np
from longrun.learning.envs.env_source import env_source
from longrun.learning.envs.queueing.environment import criss_cross

def shown(queue):
    keys = {"rate", "cost", "wear", "price"}
    envs = {
        "class": queue.Queue,
        "function": queue.make,
        "lambda": lambda: queue.Queue(),
        "set": partial(lambda **_: queue.Queue(), keys=keys, names=frozenset(keys)),
        "tuples": partial(lambda **_: queue.Queue(), keys={(k, 1) for k in keys}),
        "array": partial(lambda **_: queue.Queue(), a=np.arange(3), b=np.array([keys, len])),
        "vector": lambda: SyncVectorEnv([queue.make] * 2),
        "processes": lambda: AsyncVectorEnv([queue.make] * 2),
    }
    found = {}
    for name, env in envs.items():
        made = env()
        found[name] = env_source(env, made)["identity"]
        made.close()
    cheetah = gymnasium.make("HalfCheetah-v5", forward_reward_weight=2.0)
    found["id"] = env_source("HalfCheetah-v5", cheetah)["identity"]
    found["object"] = env_source(cheetah, cheetah)["identity"]
    network = criss_cross("BL")
    found["network"] = env_source(network, network)["identity"]
    return found

if __name__ == "__main__":
    import own_queue
    print(json.dumps(shown(own_queue)))
"""


@pytest.mark.slow
def test_it_is_the_same_in_every_process(load: Any, tmp_path: Path) -> None:
    load(QUEUE)
    (tmp_path / "show.py").write_text(SHOW)
    found = []
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "show.py"],
            cwd=tmp_path,
            env=child_environment(PYTHONHASHSEED=seed),
            capture_output=True,
            check=True,
            timeout=120,
        )
        found.append(json.loads(done.stdout))
    assert found[0] == found[1]
    assert len(set(found[0].values())) == len(found[0])


def test_a_script_and_its_import_define_the_same(load: Any, tmp_path: Path) -> None:
    script = QUEUE + (
        "\nclass Queue(Queue):\n    def name(self):\n        return __name__, __file__\n"
        "\nif __name__ == '__main__':\n"
        "    from longrun.learning.envs.env_source import env_source\n"
        "    print(env_source(Queue, Queue())['identity'], end='')\n"
    )
    imported = identity(load(script).Queue)
    found = subprocess.run(
        [sys.executable, tmp_path / "own_queue.py"], capture_output=True, text=True, check=True
    )
    assert found.stdout == imported


USES_MASS = (
    """
    def helper(self):
        return MASS
""",
    """
    @property
    def mass(self):
        return MASS
""",
    """
    @staticmethod
    def masses():
        return [MASS for _ in range(3)]
""",
    """
    @cached_property
    def mass(self):
        return (lambda: MASS)()
""",
    """
    @lru_cache
    def mass(self):
        return MASS
""",
)


@pytest.mark.parametrize("name", ["Queue", "Faster"])
@pytest.mark.parametrize("use", USES_MASS)
def test_a_global_read_when_the_file_is_imported_counts(
    load: Any, monkeypatch: pytest.MonkeyPatch, name: str, use: str
) -> None:
    text = "import os\nfrom functools import *\nMASS = float(os.environ['MASS'])\n" + QUEUE
    text = text.replace("\ndef make", f"{use}\nclass Faster(Queue):\n    pass\n\ndef make")
    found = []
    for mass in "121":
        monkeypatch.setenv("MASS", mass)
        found.append(identity(getattr(load(text), name)))
    assert found[0] == found[2] != found[1]


# --- in a notebook there are no files ---------------------------------------------------------


def in_notebook(*cells: str) -> dict[str, Any]:
    """The globals after cells have been run, whose module is none that has a file."""
    names: dict[str, Any] = {"__name__": "a notebook"}
    for cell in cells:
        exec(cell, names)
    return names


def test_in_a_notebook_code_and_globals_count() -> None:
    first = identity(in_notebook(QUEUE)["Queue"])
    assert identity(in_notebook(QUEUE)["Queue"]) == first
    assert identity(in_notebook(QUEUE, "E = 2.0")["Queue"]) != first
    assert identity(in_notebook(QUEUE.replace("return D", "return D + D"))["Queue"]) != first
    assert identity(in_notebook(QUEUE.replace("Box(-1", "Box(-2"))["Queue"]) != first
    held = QUEUE.replace("    def first", "    @property\n    def first")
    assert identity(in_notebook(held.replace("return A", "return 3"))["Queue"]) != identity(
        in_notebook(held.replace("return A", "return 4"))["Queue"]
    )


# --- what it was made with --------------------------------------------------------------------


def made_with(scale: float) -> Any:
    return lambda: Drift(reward_scale=scale)


def with_default(scale: float) -> Any:
    def make(*, scale: float = scale) -> Drift:
        return Drift()

    return make


class Model:
    def __init__(self, rate: float) -> None:
        self._rate = rate


class Slotted:
    __slots__ = ("__rate", "unset")

    def __init__(self, rate: float) -> None:
        self.__rate = rate


class MoreSlotted(Slotted):
    __slots__ = "more"


class Holds(Drift):
    """An environment that keeps what it is made with, whatever it is."""

    def __init__(self, held: Any) -> None:
        super().__init__()
        self._held = held


class Unreadable:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError


class Other(Drift):
    unreadable = Unreadable()

    def step(self, action: Any) -> Any:
        obs, reward, *rest = super().step(action)
        return obs, reward - 1.0, *rest


def of_a_global() -> Drift:
    return Drift(reward_scale=SCALE)


def shop(cost: float) -> Any:
    return QueueingEnv(
        Network(
            name="shop",
            arrivals=(0.3,),
            stations=(((0, 1.0),),),
            routing=((),),
            holding_costs=(cost,),
        ),
        idling=True,
    )


def chain(reward: float) -> Any:
    return to_gymnasium(MDP(np.ones((1, 2, 1)), [[0.0, reward]]))


def registered(scale: float) -> Any:
    return gymnasium.make("Drift-v0", reward_scale=scale)


def changed_later(force: float) -> Any:
    env: Any = gymnasium.make("CartPole-v1")
    env.unwrapped.force_mag = force
    return env


def itself(scale: float) -> Any:
    env = Holds(scale)
    env.parts = [{"whole": env, "neighbours": [env]}] * 3  # type: ignore[attr-defined]
    return env


MADE: dict[str, Callable[[float], Any]] = {
    "argument": lambda x: partial(Holds, x),
    "keyword": lambda x: partial(Holds, held=x),
    "argument of an argument": lambda x: partial(Holds, partial(Model, x)),
    "closure": made_with,
    "default": with_default,
    "object": Holds,
    "private object in an object": lambda x: Holds(Model(x)),
    "array": lambda x: Holds(np.array([1.0, x])),
    "array of objects": lambda x: Holds(np.array([None, x], object)),
    "number of NumPy": lambda x: Holds(np.float32(x)),
    "list in a dict": lambda x: Holds({"rates": [1, (x,)]}),
    "set": lambda x: Holds({"a", x}),
    "set of tuples": lambda x: Holds({("a", x), ("b", 1)}),
    "set in a set": lambda x: Holds({frozenset({frozenset({(x, "a")})})}),
    "slot": lambda x: Holds(Slotted(x)),
    "slot of a base": lambda x: Holds(MoreSlotted(x)),
    "function": lambda x: Holds(made_with(x)),
    "method": lambda x: MethodType(lambda self: Drift(), Model(x)),
    "wrapper": lambda x: TimeLimit(Drift(), int(10 * x)),
    "function of a wrapper": lambda x: TransformReward(Drift(), lambda r, by=x: r * by),
    "network": shop,
    "model": chain,
    "id": registered,
    "changed later": changed_later,
    "itself": itself,
}


@pytest.mark.parametrize("kind", MADE)
def test_what_it_was_made_with_counts(kind: str) -> None:
    one, other, again = (MADE[kind](x) for x in (0.1, 0.5, 0.1))
    assert identity(one) != identity(other)
    assert identity(one) == identity(again)


DIFFERENT = {
    "lambda": (
        lambda: TransformReward(Drift(), lambda r: 0.1 * float(r)),
        lambda: TransformReward(Drift(), lambda r: 0.5 * float(r)),
    ),
    "class": (Drift, type("Drift", (Other,), {})),
    "function of a library": (Holds(np.tanh), Holds(np.sin)),
    "built-in function": (Holds(min), Holds(max)),
    "dtype": (Holds(np.zeros(2, np.float32)), Holds(np.zeros(2, np.int32))),
    "shape": (Holds(np.zeros((1, 2))), Holds(np.zeros((2, 1)))),
}


@pytest.mark.parametrize("kind", DIFFERENT)
def test_what_is_different_has_another_identity(kind: str) -> None:
    one, other = DIFFERENT[kind]
    assert identity(one) != identity(other)


def test_a_global_number_that_a_function_names_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    before = identity(of_a_global)
    monkeypatch.setitem(globals(), "SCALE", 2.0)
    assert identity(of_a_global) != before


def test_what_an_environment_has_drawn_or_a_solver_has_computed_does_not_count() -> None:
    used, fresh = registered(0.1), registered(0.1)
    used.unwrapped.np_random  # noqa: B018  (it seeds itself)
    assert identity(used) == identity(fresh)
    model = MDP(np.ones((1, 2, 1)), [[0.0, 1.0]])
    before = identity(to_gymnasium(model))
    solve(model)
    assert identity(to_gymnasium(model)) == before


def test_gymnasiums_wrappers_are_the_same_before_and_after_use() -> None:
    used, fresh = (gymnasium.make("CartPole-v1") for _ in range(2))
    used.reset()
    used.step(used.action_space.sample())
    assert used.spec
    assert identity(used) == identity(fresh)
    assert identity(Holds([used])) == identity(Holds([gymnasium.make("CartPole-v1")]))
    assert identity(TimeLimit(used, 9)) == identity(TimeLimit(fresh, 9)) != identity(fresh)


def test_objects_in_sets_may_refer_to_what_holds_them() -> None:
    env = Holds(0.1)
    env.nodes = [Model(k) for k in range(15)]  # type: ignore[attr-defined]
    for node in env.nodes:  # type: ignore[attr-defined]
        node.env, node.others = env, set(env.nodes)  # type: ignore[attr-defined]
    before = identity(env)
    assert identity(env) == before
    env.nodes[-1].rate = 7.0  # type: ignore[attr-defined]
    assert identity(env) != before


# --- what is recorded --------------------------------------------------------------------------


def test_the_source_names_what_made_an_environment() -> None:
    found = source(partial(Drift, 9, wall=1.5))
    assert found["made_by"] == "tiny_envs.Drift"
    assert found["arguments"] == ["9", "wall=1.5"]
    assert found["attributes"]["wall"] == 1.5
    json.dumps(found)


def test_strings_of_attributes_are_not_recorded() -> None:
    env = Drift()
    env.token, env.headers = "secret", {"key": "secret"}  # type: ignore[attr-defined]
    assert "secret" not in json.dumps(source(env))
    before = identity(env)
    env.token = "another"  # type: ignore[attr-defined]
    assert identity(env) != before


def test_anything_may_be_in_an_environment() -> None:
    odd: Any = Drift()
    odd.itself = odd
    odd.file, odd.set = open, {1, 2}
    odd.bad = type("Bad", (), {"__repr__": lambda self: 1 / 0, "__eq__": lambda *_: 1 / 0})()
    odd.empty = FunctionType(
        (lambda: odd).__code__, {}, closure=(type((lambda: odd).__closure__[0])(),)
    )  # type: ignore[index]
    odd.deep = []
    for _ in range(5000):
        odd.deep = [odd.deep]
    odd.graph = [[] for _ in range(40)]
    for node in odd.graph:
        node.extend(odd.graph)
    json.dumps(source(odd))
