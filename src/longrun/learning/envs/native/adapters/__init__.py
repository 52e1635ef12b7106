"""Environments of other JAX libraries, each behind `longrun.learning.envs.native.Environment`.

An adapter for a library is a module of this package that offers one function:

    make(name: str, args: dict[str, Any]) -> Environment

For the env string 'gymnax:Pendulum-v1?max_steps_in_episode=100' it gets the name 'Pendulum-v1' and
the arguments {'max_steps_in_episode': 100}. It

* imports the library with `packages.import_package`, which says what to install if it is missing;
* checks the name with `packages.env_id` and the arguments with `packages.time_limit`, so that a
  mistake is an `InputError` of one line;
* returns a `packages.Adapted` whose `env_name` is `join_env(prefix:name, args)`.

The environment must not reset itself, count its steps, or clip its actions: `batching.py` does that
for all. Its observations are those of the true successor, and its time limit is not a termination.
`brax_like.py` serves libraries with Brax's interface; `gymnax.py` is an example of another
one. `protocol_check.require_sound` finds most mistakes by tracing.

The prefix is entered in `NATIVE_MAKERS` of `env_strings.py`, the library as an extra of
the same name in pyproject.toml, and tests/native/test_adapters.py gets a few of its environments.
"""
