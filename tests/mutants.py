"""Kept mutants: small errors in the code, each of which fast tests must notice.

`make test-mutants` (tests/mutation_run.py) applies them one by one to a copy of the code. Texts are
those of one place in a file. Each change is one that a person could make by mistake and that
changes what is learned, measured or solved.
"""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    """One wrong change."""

    name: str
    file: str
    """below src/longrun"""
    old: str
    """what is replaced; it occurs once in the file"""
    new: str
    tests: tuple[str, ...]
    """files of tests below tests/, or FILE::TEST, one of which must fail"""


INDEPENDENCE = "test_parallel_environments.py"
ADVANTAGES = "learn/test_advantages.py"
LEARNER = "learn/test_learner.py"
TRUST = "learn/test_trust_region.py"
LIMITS = "learn/test_learning_with_limits.py"
TRACE = "learn/test_trace.py"
AUTHORS = "learn/test_authors.py"

SEEDING = (
    Mutant(
        "the same exploration noise for all host environments",
        "learning/envs/shard.py",
        "seeding.generator(self._plan.seeds[part.replica], purpose, i, iteration)",
        "seeding.generator(self._plan.seeds[part.replica], purpose, 0, iteration)",
        (f"{INDEPENDENCE}::test_on_the_host",),
    ),
    Mutant(
        "the same exploration noise in every iteration on the host",
        "learning/envs/shard.py",
        "seeding.generator(self._plan.seeds[part.replica], purpose, i, iteration)",
        "seeding.generator(self._plan.seeds[part.replica], purpose, i, 0)",
        (f"{INDEPENDENCE}::test_on_the_host",),
    ),
    Mutant(
        "evaluations on the host act with training's noise",
        "learning/envs/shard.py",
        "resets, noise = plan.eval_purposes",
        "resets, noise = plan.eval_purposes[0], seeding.NOISE",
        (f"{INDEPENDENCE}::test_on_the_host",),
    ),
    Mutant(
        "workers draw the same exploration noise",
        "learning/envs/shard.py",
        "for i in range(part.first, part.last)",
        "for i in range(part.last - part.first)",
        (f"{INDEPENDENCE}::test_on_the_host",),
    ),
    Mutant(
        "environments of several workers start from the same seeds",
        "learning/envs/shard.py",
        "Chain(stepper, (*stream, part.first + i), self.heartbeat, episode)",
        "Chain(stepper, (*stream, i), self.heartbeat, episode)",
        (f"{INDEPENDENCE}::test_on_the_host",),
    ),
    Mutant(
        "host environments of training start from the same seeds",
        "learning/envs/shard.py",
        "Chain(stepper, (*stream, part.first + i), self.heartbeat, episode)",
        "Chain(stepper, (*stream, part.first), self.heartbeat, episode)",
        (f"{INDEPENDENCE}::test_on_the_host",),
    ),
    Mutant(
        "all episodes of a host environment are the same",
        "learning/envs/stepper.py",
        "self.stepper.reset(seeding.episode_seed(*self._stream, self.episode), obs_out)",
        "self.stepper.reset(seeding.episode_seed(*self._stream, 0), obs_out)",
        (f"{INDEPENDENCE}::test_on_the_host",),
    ),
    Mutant(
        "evaluations of a VectorEnv act with training's noise",
        "learning/envs/vector_shard.py",
        "seeding.generator(seed, purpose, 0, iteration)",
        "seeding.generator(seed, seeding.NOISE, 0, iteration)",
        (f"{INDEPENDENCE}::test_on_the_host",),
    ),
    Mutant(
        "all evaluations of a training on the host are the first one's",
        "learning/train/host/replica.py",
        'evaluated = self.pool.start("evaluate", self.index, iteration)',
        'evaluated = self.pool.start("evaluate", self.index, 0)',
        (f"{INDEPENDENCE}::test_evaluations_of_a_training_and_of_its_agent_differ",),
    ),
    Mutant(
        "an agent on the host repeats the evaluation of its training",
        "learning/train/host/loop.py",
        "eval_purposes=seeding.AFTERWARDS,",
        "eval_purposes=seeding.IN_TRAINING,",
        (f"{INDEPENDENCE}::test_evaluations_of_a_training_and_of_its_agent_differ",),
    ),
    Mutant(
        "an agent on a device repeats the evaluation of its training",
        "learning/train/device/loop.py",
        "how = shape, explore, device.MEASUREMENT",
        "how = shape, explore, device.EVALUATION",
        (f"{INDEPENDENCE}::test_evaluations_of_a_training_and_of_its_agent_differ",),
    ),
    Mutant(
        "the same orders of samples in every iteration on the host",
        "learning/train/host/replica.py",
        "seeding.generator(self.seed, seeding.SHUFFLE, network, iteration)",
        "seeding.generator(self.seed, seeding.SHUFFLE, network, 0)",
        (f"{INDEPENDENCE}::test_orders_of_samples_on_the_host",),
    ),
    Mutant(
        "the same orders of samples for both networks on the host",
        "learning/train/host/replica.py",
        "seeding.generator(self.seed, seeding.SHUFFLE, network, iteration)",
        "seeding.generator(self.seed, seeding.SHUFFLE, 0, iteration)",
        (f"{INDEPENDENCE}::test_orders_of_samples_on_the_host",),
    ),
    Mutant(
        "the same orders of samples for both networks on a device",
        "learning/train/device/program.py",
        "shuffles = Networks(orders[:epochs], orders[epochs:])",
        "shuffles = Networks(orders[:epochs], orders[:epochs])",
        (f"{INDEPENDENCE}::test_orders_of_samples_on_a_device",),
    ),
    Mutant(
        "the same keys in every iteration on a device",
        "learning/train/device/program.py",
        "key = key_of(seed, ITERATION, learned.iteration)",
        "key = key_of(seed, ITERATION, 0)",
        (f"{INDEPENDENCE}::test_on_a_device",),
    ),
    Mutant(
        "all device environments reset with one key",
        "learning/envs/native/batching.py",
        "state, obs = jax.vmap(env.reset)(jax.random.split(key, count))",
        "state, obs = jax.vmap(env.reset)(jnp.broadcast_to(key, (count,)))",
        (f"{INDEPENDENCE}::test_on_a_device",),
    ),
    Mutant(
        "all device environments step with one key",
        "learning/envs/native/batching.py",
        "after = jax.vmap(env.step)(jax.random.split(step_key, count), chains.state, action)",
        "after = jax.vmap(env.step)(jnp.broadcast_to(step_key, (count,)), chains.state, action)",
        (f"{INDEPENDENCE}::test_on_a_device",),
    ),
    Mutant(
        "resets and steps share a key on a device",
        "learning/envs/native/batching.py",
        "jax.random.split(key) if ends(env) and spares is None else (key, key)",
        "(key, key)",
        (f"{INDEPENDENCE}::test_on_a_device",),
    ),
    Mutant(
        "evaluations on a device use training's keys",
        "learning/train/device/program.py",
        "start_key, key = jax.random.split(key_of(seed, purpose, learned.iteration))",
        "start_key, key = jax.random.split(key_of(seed, ITERATION, learned.iteration))",
        (f"{INDEPENDENCE}::test_every_purpose_on_a_device_has_keys_of_its_own",),
    ),
    Mutant(
        "all evaluations on a device are those of iteration 0",
        "learning/train/device/program.py",
        "start_key, key = jax.random.split(key_of(seed, purpose, learned.iteration))",
        "start_key, key = jax.random.split(key_of(seed, purpose))",
        (f"{INDEPENDENCE}::test_on_a_device",),
    ),
    Mutant(
        "all replicas on a device start alike",
        "learning/train/device/program.py",
        "return native.start(env, key_of(seed, BEGINNING), num_envs)",
        "return native.start(env, key_of(jnp.uint32(0), BEGINNING), num_envs)",
        (f"{INDEPENDENCE}::test_on_a_device",),
    ),
)

LEARNING = (
    Mutant(
        "the gain is added to TD errors",
        "learning/learn/advantages.py",
        "return rewards - gain + discount",
        "return rewards + gain + discount",
        (ADVANTAGES,),
    ),
    Mutant(
        "advantages propagate through ends",
        "learning/learn/advantages.py",
        "advantage = delta + decay * carries_on * later",
        "advantage = delta + decay * later",
        (ADVANTAGES,),
    ),
    Mutant(
        "the value constraint pushes values away from 0",
        "learning/learn/advantages.py",
        "return advantages + values - value_constraint * offset",
        "return advantages + values + value_constraint * offset",
        (ADVANTAGES,),
    ),
    Mutant(
        "time limits are terminations in the discounted criterion",
        "learning/learn/criteria.py",
        "successor=jnp.where(rollout.terminated, 0.0, values.successor)",
        "successor=jnp.where(rollout.terminated | rollout.truncated, 0.0, values.successor)",
        (ADVANTAGES,),
    ),
    Mutant(
        "the reset cost is a reward",
        "learning/learn/criteria.py",
        "reward=rollout.reward - state.reset_cost * rollout.terminated",
        "reward=rollout.reward + state.reset_cost * rollout.terminated",
        (ADVANTAGES,),
    ),
    Mutant(
        "decayed sums of rewards are not restarted",
        "learning/learn/criteria.py",
        "return jnp.where(end, 0.0, total), total",
        "return total, total",
        (ADVANTAGES,),
    ),
    Mutant(
        "the reset cost falls while terminations are too frequent",
        "learning/learn/criteria.py",
        "excess = jnp.clip((rate - target) / unit, -1, 1)",
        "excess = jnp.clip((target - rate) / unit, -1, 1)",
        (ADVANTAGES,),
    ),
    Mutant(
        "the ratio is clipped on one side only",
        "learning/learn/policy_steps.py",
        "clipped = jnp.clip(ratio, 1 - clip_range, 1 + clip_range)",
        "clipped = jnp.minimum(ratio, 1 + clip_range)",
        (f"{LEARNER}::test_clipped_surrogate",),
    ),
    Mutant(
        "the entropy bonus is a penalty",
        "learning/learn/policy_steps.py",
        'loss = -surrogate - config.entropy_coefficient * means["entropy"]',
        'loss = -surrogate + config.entropy_coefficient * means["entropy"]',
        (f"{LEARNER}::test_the_direction_in_which_options_act",),
    ),
    Mutant(
        "samples at time limits count in the losses of the authors",
        "lab/paper/authors.py",
        "cut_off = rollout.truncated & ~rollout.terminated",
        "cut_off = rollout.truncated & rollout.terminated",
        (f"{AUTHORS}::test_losses_are_means_over_the_samples_that_count",),
    ),
    Mutant(
        "moments are merged before the batch is standardised",
        "learning/learn/preparation.py",
        "    seen = read(config.acting, spaces, state.obs_moments, rollout.obs)\n",
        "    if config.normalize_observations:\n"
        "        rows = rollout.obs[..., spaces.mask_size :].reshape(-1, spaces.feature_size)\n"
        "        state = state._replace(obs_moments=merge(state.obs_moments, rows))\n"
        "    seen = read(config.acting, spaces, state.obs_moments, rollout.obs)\n",
        (f"{LEARNER}::test_the_first_ratio_is_1_to_rounding",),
    ),
    Mutant(
        "a merge of moments leaves out the difference of the means",
        "learning/learn/moments.py",
        "samples.var(0) * n + delta**2 * moments.size * n / total",
        "samples.var(0) * n",
        (f"{LEARNER}::test_merged_moments_are_those_of_all_samples",),
    ),
    Mutant(
        "the learning rate grows over the run",
        "learning/learn/minibatches.py",
        "remaining = 1 - progress if config.learning_rate_decay else 1.0",
        "remaining = progress if config.learning_rate_decay else 1.0",
        (f"{LEARNER}::test_learning_rate_decay_scales_the_learning_rate_by_what_remains",),
    ),
    Mutant(
        "every epoch has the first one's order",
        "learning/learn/minibatches.py",
        "ends, metrics = jax.lax.scan(epoch, starts, tuple(task.shuffles for task in tasks))",
        "first = tuple(jnp.tile(task.shuffles[:1], (len(task.shuffles), 1)) for task in tasks)\n"
        "    ends, metrics = jax.lax.scan(epoch, starts, first)",
        (f"{LEARNER}::test_epochs_are_passes_one_after_another",),
    ),
    Mutant(
        "epochs have the same minibatches",
        "learning/learn/minibatches.py",
        "turns = jax.random.randint(turn_key, (rows, 1, minibatch_size), 0, minibatches)",
        "turns = jax.random.randint(turn_key, (rows, 1, minibatch_size), 0, 1)",
        ("learn/test_shuffling.py",),
    ),
    Mutant(
        "halves of a batch are split by time only",
        "learning/learn/trace.py",
        "half = (2 * jnp.arange(steps)[:, None] // steps + jnp.arange(envs)) % 2",
        "half = (2 * jnp.arange(steps)[:, None] // steps + jnp.zeros(envs, int)) % 2",
        (f"{TRACE}::test_a_half_has_earlier_and_later_steps_of_alternating_environments",),
    ),
    Mutant(
        "the change of advantages is not standardised",
        "learning/learn/trace.py",
        "change = (longer - usual) / (usual.std() + 1e-8)",
        "change = longer - usual",
        (f"{TRACE}::test_what_is_compared_does_not_depend_on_the_unit_of_rewards",),
    ),
    Mutant(
        "lambda stays long",
        "learning/learn/trace.py",
        "lowered = jnp.maximum(1 - factor * (1 - trace.gae_lambda), config.gae_lambda)",
        "lowered = trace.gae_lambda",
        (f"{TRACE}::test_lambda_starts_long_where_rewards_come_late",),
    ),
    Mutant(
        "the KL divergence of a Gaussian in the wrong direction",
        "learning/learn/distributions.py",
        "distance = ((mean_p - mean_q) * jnp.exp(-log_std_q)) ** 2",
        "distance = ((mean_p - mean_q) * jnp.exp(-log_std_p)) ** 2",
        ("learn/test_distributions.py",),
    ),
)

LIMITED = (
    Mutant(
        "a controller's integral may be negative",
        "learning/learn/limits.py",
        "integral = jnp.clip(old.integral + step_size * violations, 0.0, HIGHEST)",
        "integral = jnp.minimum(old.integral + step_size * violations, HIGHEST)",
        (f"{LIMITS}::test_dual_ascent_rises_above_the_limit_and_falls_below_to_zero",),
    ),
    Mutant(
        "multipliers reward costs",
        "learning/learn/limits.py",
        "total = reward.advantage - sum(",
        "total = reward.advantage + sum(",
        (f"{LIMITS}::test_combined_advantages_by_hand",),
    ),
    Mutant(
        "the advantages of a cost are left in the scale of its values",
        "learning/learn/limits.py",
        "advantages.append((centred * value_unit(own)).reshape(-1))",
        "advantages.append(centred.reshape(-1))",
        (f"{LIMITS}::test_what_a_trust_region_gets_of_costs_by_hand",),
    ),
    Mutant(
        "the margin of a trust region allows more cost",
        "learning/learn/limits.py",
        "jnp.stack(excess) + state.margin",
        "jnp.stack(excess) - state.margin",
        (f"{LIMITS}::test_what_a_trust_region_gets_of_costs_by_hand",),
    ),
    Mutant(
        "the margin of a trust region falls while a cost is above its limit",
        "learning/learn/limits.py",
        "return jnp.clip(old + change, 0.0, allowed / 2)",
        "return jnp.clip(old - change, 0.0, allowed / 2)",
        (f"{LIMITS}::test_a_trust_region_holds_a_margin_that_integrates_the_excess",),
    ),
    Mutant(
        "resets cost limited costs, too",
        "learning/learn/limits.py",
        "learn, own = criterion_of(config).learn, _without_reset_cost(config)",
        "learn, own = criterion_of(config).learn, config",
        (f"{LIMITS}::test_an_adaptive_reset_cost_is_that_of_the_reward_alone",),
    ),
    Mutant(
        "a trust-region step may be as long as twice its limit",
        "learning/learn/trust_region.py",
        "full_step = jnp.sqrt(2 * kl_limit / jnp.maximum(curvature, 1e-20)) * direction",
        "full_step = jnp.sqrt(4 * kl_limit / jnp.maximum(curvature, 1e-20)) * direction",
        (f"{TRUST}::test_natural_step_solves_a_linear_problem_in_a_quadratic_region",),
    ),
    Mutant(
        "the line search accepts steps that lower the surrogate",
        "learning/learn/trust_region.py",
        "improved: jax.Array = step.surrogate > start",
        "improved: jax.Array = jnp.isfinite(step.surrogate)",
        (TRUST,),
    ),
    Mutant(
        "steps do not get shorter with the square",
        "learning/learn/policy_steps.py",
        "kl_limit=config.kl_limit * remaining**2",
        "kl_limit=config.kl_limit * remaining",
        (f"{TRUST}::test_decay_shortens_steps_and_what_they_correct_of_a_cost",),
    ),
    Mutant(
        "costs may rise to twice their limits",
        "learning/learn/limited_step.py",
        "are_kept = (costs <= jnp.maximum(-excess, 0.0) + ROUNDING * reach).all()",
        "are_kept = (costs <= jnp.maximum(-2 * excess, 0.0) + ROUNDING * reach).all()",
        ("learn/test_limited_step.py::test_a_step_that_breaks_a_limit_is_halved",),
    ),
)

LOOPS = (
    Mutant(
        "a rollout has the observation after a reset as the successor",
        "learning/envs/native/batching.py",
        "facts = Facts(after.reward.astype(jnp.float32), next_obs,",
        "facts = Facts(after.reward.astype(jnp.float32), chains.obs,",
        ("native/test_chains.py",),
    ),
    Mutant(
        "a time limit comes one step late",
        "learning/envs/native/batching.py",
        "truncated = (age >= env.time_limit) & ~terminated if env.time_limit",
        "truncated = (age > env.time_limit) & ~terminated if env.time_limit",
        ("native/test_chains.py",),
    ),
    Mutant(
        "bounds of actions are not applied",
        "learning/envs/flat_spaces.py",
        "return xp.minimum(xp.maximum(action, low), high)",
        "return xp.maximum(action, low)",
        ("envs/test_actions.py::test_what_environments_are_given",),
    ),
    Mutant(
        "a truncation counts as a cost of termination",
        "learning/envs/shard.py",
        "self._write_ready(costs[t], action[t], given, terminated[t])",
        "self._write_ready(costs[t], action[t], given, terminated[t] | truncated[t])",
        ("envs/test_costs.py::test_a_time_limit_is_no_termination",),
    ),
    Mutant(
        "with limits, evaluations take the most likely actions",
        "learning/options/config.py",
        "return bool(self.limits)",
        "return False",
        (f"{LIMITS}::test_with_limits_evaluations_draw_actions",),
    ),
    Mutant(
        "the learning rate of a resumed run starts again at its beginning",
        "learning/runs/spec.py",
        "return (iteration - self.first_iteration) / (self.iterations - self.first_iteration)",
        "return (iteration - self.first_iteration) / self.iterations",
        ("train/test_resume.py::test_a_decaying_learning_rate_starts_anew_in_each_call_of_learn",),
    ),
    Mutant(
        "a start-up that cannot be seen is left out too early",
        "learning/train/long_run_rate.py",
        "FORGETTING = 3\n",
        "FORGETTING = 2\n",
        ("train/test_settling.py::test_a_start_up_is_left_out_whether_it_can_be_seen_or_not",),
    ),
    Mutant(
        "a worker's policy ignores the standard deviation",
        "learning/envs/numpy_policy.py",
        "outputs += np.exp(self._log_std) * noise",
        "outputs += noise",
        (f"{LEARNER}::test_gaussian_actions_are_the_mean_and_noise_times_the_standard_deviation",),
    ),
)

SOLVERS = (
    Mutant(
        "value iteration is not made aperiodic",
        "exact/tabular/solvers/policy_iteration.py",
        "values = values + (1 - STAY) * (found.best - values)",
        "values = found.best",
        ("tabular/test_solvers.py::test_periodic_models",),
    ),
    Mutant(
        "a bracket takes the mean change as its lower end",
        "exact/tabular/solvers/solution.py",
        "low, high = float(change.min()) - 2 * off,",
        "low, high = float(change.mean()) - 2 * off,",
        ("tabular/test_solvers.py",),
    ),
    Mutant(
        "states are led to the worst recurrent class",
        "exact/tabular/solvers/policy_iteration.py",
        "reached[found.recurrent[int(np.argmax(gains))]] = True",
        "reached[found.recurrent[int(np.argmin(gains))]] = True",
        ("tabular/test_solvers.py",),
    ),
    Mutant(
        "the bias is not centred by the stationary law",
        "exact/tabular/evaluation.py",
        "return np.asarray(values - self.stationary @ values)",
        "return np.asarray(values - values.mean())",
        ("tabular/test_policy_evaluation.py",),
    ),
    Mutant(
        "first passage times of a state to itself are 0",
        "exact/tabular/chain.py",
        "np.fill_diagonal(times, 1 / law)",
        "np.fill_diagonal(times, 0)",
        ("tabular/test_chain.py", "tabular/test_policy_evaluation.py"),
    ),
    Mutant(
        "a mixture keeps limits to a solver's tolerance only",
        "exact/tabular/limits/columns.py",
        "weights = _corrected(_as_weights(found.x), excess, margins)",
        "weights = _as_weights(found.x)",
        ("tabular/test_limits.py::test_weights_of_a_mixture_are_exact_where_highs_is_not",),
    ),
    Mutant(
        "prices of limits are not rescaled",
        "exact/tabular/limits/columns.py",
        "prices = np.maximum(-found.ineqlin.marginals, 0) * spread",
        "prices = np.maximum(-found.ineqlin.marginals, 0)",
        ("tabular/test_limits.py::test_garnets_against_the_program",),
    ),
    Mutant(
        "the remainder of a truncation counts one change too few",
        "exact/tabular/solvers/__init__.py",
        "remainder = last * shrink / (1 - shrink) if shrink < 10 / 11",
        "remainder = last * shrink if shrink < 10 / 11",
        ("tabular/test_trust_region_iteration.py",),
    ),
    Mutant(
        "differential Q-learning's gain moves the wrong way",
        "exact/tabular/learning/rules.py",
        "gain = learner.gain + settings.gain_step_size / settings.entries * change\n"
        "    return _moved(learner, step, change)",
        "gain = learner.gain - settings.gain_step_size / settings.entries * change\n"
        "    return _moved(learner, step, change)",
        ("tabular/test_learning.py",),
    ),
)

RESULTS = (
    Mutant(
        "the interquartile mean leaves out one end only",
        "lab/results/statistics.py",
        "middle: Array = pooled[..., cut : count - cut].mean(-1)",
        "middle: Array = pooled[..., cut:count].mean(-1)",
        ("results/test_statistics.py",),
    ),
    Mutant(
        "ties are wins",
        "lab/results/statistics.py",
        "wins.append(((own > other) + 0.5 * (own == other)).mean())",
        "wins.append(((own > other) + 1.0 * (own == other)).mean())",
        ("results/test_statistics.py",),
    ),
    Mutant(
        "scores are scaled by the largest alone",
        "lab/results/statistics.py",
        "low, high = np.nanmin(everything, 0), np.nanmax(everything, 0)",
        "low, high = 0 * np.nanmin(everything, 0), np.nanmax(everything, 0)",
        ("results/test_statistics.py",),
    ),
    Mutant(
        "a limit is kept if the rate itself is below",
        "lab/results/scores.py",
        "return tuple(self.limit is None or low <= self.limit for low in self.lows)",
        "return tuple(self.limit is None or rate <= self.limit for rate in self.rates)",
        ("results/test_limits_in_results.py",),
    ),
    Mutant(
        "settings that break limits come first",
        "lab/results/scores.py",
        "key=lambda each: -shares.get(each.key, 1.0)",
        "key=lambda each: shares.get(each.key, 1.0)",
        ("results/test_limits_in_results.py",),
    ),
    Mutant(
        "of two rows for a step the earlier one counts",
        "lab/results/read.py",
        "mine = np.flatnonzero(rows.replica == replica.index)[::-1]",
        "mine = np.flatnonzero(rows.replica == replica.index)",
        ("results/test_results.py",),
    ),
    Mutant(
        "overall rows leave out no setting",
        "lab/results/comparison.py",
        "partial = [label for label in count if count[label] < len(tasks)]",
        "partial = [label for label in count if count[label] < 1]",
        ("results/test_compare.py",),
    ),
)

RATE = "train/test_long_run_rate.py"

EVALUATION = (
    Mutant(
        "the rate of an evaluation is the plain mean",
        "learning/train/long_run_rate.py",
        "share = visits / visits.sum()",
        "share = count / count.sum()",
        (RATE,),
    ),
    Mutant(
        "episodes that are cut off count as ended",
        "learning/train/long_run_rate.py",
        "np.append(1.0, 1 - ends[:-1] / count[:-1])",
        "np.append(1.0, 1 - np.minimum(1, (ends[:-1] + 1) / count[:-1]))",
        (RATE,),
    ),
    Mutant(
        "few ends do not widen an interval",
        "learning/train/long_run_rate.py",
        "FEW_ENDS = 10",
        "FEW_ENDS = 1",
        (RATE,),
    ),
    Mutant(
        "ends that were not seen never matter",
        "learning/train/evaluation.py",
        "UNSEEN_ENDS = 3.0",
        "UNSEEN_ENDS = 0.0",
        ("train/test_settling.py::test_an_evaluation_is_of_the_long_run",),
    ),
    Mutant(
        "long episodes are missing from returns",
        "learning/train/evaluation.py",
        "int(first.sum(0).min())",
        "int(first.sum(0).max())",
        ("train/test_evaluation.py",),
    ),
    Mutant(
        "a time limit need not fit into an evaluation",
        "learning/train/evaluation.py",
        "steps // max(STEPS_EACH, time_limit)",
        "steps // STEPS_EACH",
        ("train/test_settling.py",),
    ),
    Mutant(
        "a rate that depends on where ages end counts as settled",
        "learning/train/long_run_rate.py",
        "AGREEMENT = 0.25",
        "AGREEMENT = 25.0",
        (RATE,),
    ),
    Mutant(
        "bounds ignore the error of Kemeny's constant",
        "exact/tabular/bounds.py",
        "kemeny = after.kemeny + after.kemeny_error",
        "kemeny = after.kemeny",
        ("tabular/test_bounds.py",),
    ),
)

MUTANTS = (*SEEDING, *LEARNING, *LIMITED, *LOOPS, *EVALUATION, *SOLVERS, *RESULTS)
