"""Golden vectors of the advantage estimators, in float64.

    pip install --no-deps verl==0.9.1 && pip install torch numpy
    python test/golden/rl/make-advantages.py

writes advantages.json beside itself: a batch of groups (`groups`) and the advantage of every token by estimator
(`expected`, [group][sample][token]). Where they come from:

- grpo, drGrpo, rloo, reinforcePlusPlus (both forms, groups of equal rewards counted), tokenGae, turnGae: verl's own functions
  of verl.trainer.ppo.core_algos, taken out of the installed file one by one, since importing verl asks for ray and more.
  They divide by the sample standard deviation (n - 1) where this project takes the population's (n); the factor between the
  two is put right here (`population`), and verl's GAE is read before its whitening (returns - values).
- gigpo, taskNormalization, reinforcePlusPlusBaseline without the groups of equal rewards: derived here from the papers
  (arXiv 2505.10978 Eq. 3-8; arXiv 2510.04206 Eq. 1) with numpy, since verl has none of them.

The batch has three tasks, gaps between turns, rewards in the middle of episodes, incomplete endings with a penalty, states
visited by several samples and twice by one, groups of equal rewards, samples without a sampled token, and tokens of several
weight versions.
"""

import ast
import importlib.metadata
import json
import pathlib
from collections import defaultdict
from types import SimpleNamespace

import numpy as np
import torch

HERE = pathlib.Path(__file__).parent
PENALTY = -0.2


def functions(path, names, scope):
    """Runs the named top-level functions of a Python file, without their decorators, in `scope`."""
    source = pathlib.Path(importlib.metadata.distribution("verl").locate_file(path)).read_text()
    tree = ast.parse(source)
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in names]
    assert {node.name for node in found} == set(names)
    for node in found:
        node.decorator_list = []
        node.returns = None
        for argument in node.args.args + node.args.kwonlyargs:
            argument.annotation = None
    exec(compile(ast.Module(found, []), path, "exec"), scope)
    return SimpleNamespace(**{name: scope[name] for name in names})


masked = functions(
    "verl/utils/torch_functional.py",
    ["masked_sum", "masked_mean", "masked_var", "masked_whiten"],
    {"torch": torch},
)
verl = functions(
    "verl/trainer/ppo/core_algos.py",
    [
        "compute_grpo_outcome_advantage",
        "compute_rloo_outcome_advantage",
        "compute_reinforce_plus_plus_outcome_advantage",
        "compute_reinforce_plus_plus_baseline_outcome_advantage",
        "compute_gae_advantage_return",
    ],
    {"torch": torch, "np": np, "verl_F": masked, "defaultdict": defaultdict},
)


# The batch


def make_sample(rng, turns, states, reward_steps, end_reason):
    """A prompt, then turns of 1-5 sampled tokens with an observation of a state before each but the first."""
    prompt = [1, 2, 3]
    tokens, mask, spans = list(prompt), [0] * len(prompt), []
    for k in range(turns):
        if k > 0:
            # Each state has an observation of its own length.
            observation = [100 + states[k]] * (2 + states[k])
            tokens += observation
            mask += [0] * len(observation)
        said = rng.integers(10, 60, rng.integers(1, 6)).tolist()
        spans.append({"start": len(tokens), "end": len(tokens) + len(said), "reward": reward_steps[k]})
        tokens += said
        mask += [1] * len(said)
    if end_reason == "completed" and turns > 0:
        # What the environment said last: after the last sampled token.
        tokens += [7, 7]
        mask += [0, 0]
    total = 0.0
    for step in reward_steps:
        total += step
    versions = np.sort(rng.integers(3, 6, len(tokens))).tolist()
    return {
        "tokens": tokens,
        "mask": mask,
        "versions": versions,
        "turns": spans,
        "endReason": end_reason,
        "environmentReward": total,
        "reward": total if end_reason == "completed" else PENALTY,
    }


def make_groups(rng):
    groups = []
    for task, sizes in [("alfworld", [4, 5, 4]), ("dbbench", [4, 3]), ("os", [5, 2, 4])]:
        for size in sizes:
            samples = []
            for i in range(size):
                turns = int(rng.integers(1, 6))
                # Few states, so that they are met again, also by the same sample.
                states = rng.integers(0, 3, turns).tolist()
                steps = [0.0] * turns
                steps[-1] = float(rng.choice([0.0, 1.0, 0.25]))
                if turns > 2 and rng.random() < 0.6:
                    steps[1] = 0.5
                samples.append(make_sample(rng, turns, states, steps, "completed" if rng.random() < 0.75 else "turn limit"))
            groups.append({"task": task, "samples": samples})
    # Equal rewards, unequal lengths.
    for group, reward in [(1, 1.0), (6, 0.0)]:
        for i, sample in enumerate(groups[group]["samples"]):
            turns = 2 + i % 3
            groups[group]["samples"][i] = make_sample(rng, turns, [0, 1, 1, 2][:turns], [0.0] * (turns - 1) + [reward], "completed")
    # Without a sampled token: the context was full after the prompt.
    groups[0]["samples"][2] = make_sample(rng, 0, [], [], "context limit")
    groups[4]["samples"][0] = make_sample(rng, 0, [], [], "context limit")
    return groups


# Shapes that verl works on: rows of equal length, a group id a row


def turn_rewards(sample):
    if not sample["turns"]:
        return []
    if sample["endReason"] == "completed":
        return [turn["reward"] for turn in sample["turns"]]
    return [0.0] * (len(sample["turns"]) - 1) + [sample["reward"]]


def rows_of(groups):
    samples = [sample for group in groups for sample in group["samples"]]
    width = max(len(sample["tokens"]) for sample in samples)
    mask = torch.zeros(len(samples), width, dtype=torch.float64)
    rewards = torch.zeros_like(mask)
    for row, sample in enumerate(samples):
        mask[row, : len(sample["mask"])] = torch.tensor(sample["mask"], dtype=torch.float64)
        # verl sums a row, so that any place will do for estimators that do not recurse; the last sampled token, for those
        # that do.
        sampled = [t for t, flag in enumerate(sample["mask"]) if flag]
        rewards[row, sampled[-1] if sampled else 0] = sample["reward"]
    index = np.array([g for g, group in enumerate(groups) for _ in group["samples"]])
    return samples, mask, rewards, index


def unrows(groups, values, mask):
    out, row = [], 0
    for group in groups:
        of_group = []
        for sample in group["samples"]:
            n = len(sample["tokens"])
            of_group.append([round(float(x), 10) + 0.0 for x in (values[row] * mask[row])[:n]])
            row += 1
        out.append(of_group)
    return out


def population(count):
    """std of a sample of `count` over std of that population."""
    return np.sqrt(count / (count - 1))


def grpo(groups):
    samples, mask, rewards, index = rows_of(groups)
    out = torch.zeros_like(mask)
    for g in range(len(groups)):
        rows = np.flatnonzero(index == g)
        factor = population(len(rows))
        # (r - mean) / (s + 1e-6) with s = sample std / factor.
        part, _ = verl.compute_grpo_outcome_advantage(rewards[rows], mask[rows], index[rows], epsilon=1e-6 * factor)
        out[rows] = part * factor
    return unrows(groups, out, mask)


def dr_grpo(groups):
    _, mask, rewards, index = rows_of(groups)
    return unrows(
        groups, verl.compute_grpo_outcome_advantage(rewards, mask, index, norm_adv_by_std_in_grpo=False)[0], mask
    )


def rloo(groups):
    _, mask, rewards, index = rows_of(groups)
    return unrows(groups, verl.compute_rloo_outcome_advantage(rewards, mask, index)[0], mask)


def reinforce_plus_plus(groups):
    _, mask, rewards, _ = rows_of(groups)
    config = SimpleNamespace(gamma=1.0)
    out, _ = verl.compute_reinforce_plus_plus_outcome_advantage(rewards, mask, config=config)
    return unrows(groups, out * population(float(mask.sum())), mask)


def reinforce_plus_plus_baseline(groups):
    _, mask, rewards, index = rows_of(groups)
    out, _ = verl.compute_reinforce_plus_plus_baseline_outcome_advantage(rewards, mask, index)
    return unrows(groups, out * population(float(mask.sum())), mask)


def values_of(groups, key):
    """The critic's values: any numbers, also on tokens that nobody may read. Exact in float32."""
    rng = np.random.default_rng(7)
    return [[np.float32(rng.normal(0, 0.5, len(sample[key]))).astype(float).tolist() for sample in group["samples"]] for group in groups]


def gae(groups, values, level, gamma, lam):
    samples, mask, _, _ = rows_of(groups)
    flat = [value for group in values for value in group]
    if level == "token":
        rewards, table = torch.zeros_like(mask), torch.zeros_like(mask)
        for row, sample in enumerate(samples):
            table[row, : len(flat[row])] = torch.tensor(flat[row], dtype=torch.float64)
            for turn, reward in zip(sample["turns"], turn_rewards(sample)):
                rewards[row, turn["end"] - 1] = reward
        _, returns = verl.compute_gae_advantage_return(rewards, table, mask, gamma, lam)
        return unrows(groups, returns - table, mask), unrows(groups, returns, mask)
    width = max(len(sample["turns"]) for sample in samples)
    table = torch.zeros(len(samples), width, dtype=torch.float64)
    rewards, taken = torch.zeros_like(table), torch.zeros_like(table)
    for row, sample in enumerate(samples):
        count = len(sample["turns"])
        table[row, :count] = torch.tensor(flat[row], dtype=torch.float64)
        rewards[row, :count] = torch.tensor(turn_rewards(sample), dtype=torch.float64)
        taken[row, :count] = 1
    _, returns = verl.compute_gae_advantage_return(rewards, table, taken, gamma, lam)
    out = torch.zeros_like(mask)
    for row, sample in enumerate(samples):
        for k, turn in enumerate(sample["turns"]):
            out[row, turn["start"] : turn["end"]] = returns[row, k] - table[row, k]
    by_turn = [[round(float(x), 10) for x in returns[row, : len(sample["turns"])]] for row, sample in enumerate(samples)]
    sizes = np.cumsum([0] + [len(group["samples"]) for group in groups])
    return unrows(groups, out, mask), [by_turn[a:b] for a, b in zip(sizes, sizes[1:])]


# From the papers


def relative(values, std):
    values = np.asarray(values, dtype=np.float64)
    if np.all(values == values[0]):
        return np.zeros_like(values)
    centred = values - values.mean()
    return centred / (values.std() + 1e-6) if std else centred


def gigpo(groups, omega, gamma, std):
    _, mask, _, _ = rows_of(groups)
    out, row = torch.zeros_like(mask), 0
    for group in groups:
        samples = group["samples"]
        episode = relative([sample["reward"] for sample in samples], std)
        anchors = defaultdict(list)
        for i, sample in enumerate(samples):
            rewards = turn_rewards(sample)
            for k, turn in enumerate(sample["turns"]):
                discounted = sum(gamma ** (j - k) * rewards[j] for j in range(k, len(rewards)))
                seen = sample["turns"][k - 1]["end"] if k > 0 else 0
                anchors[tuple(sample["tokens"][seen : turn["start"]])].append((i, turn, discounted))
        for visits in anchors.values():
            for (i, turn, _), step in zip(visits, relative([visit[2] for visit in visits], std)):
                out[row + i, turn["start"] : turn["end"]] = float(episode[i] + omega * step)
        row += len(samples)
    return unrows(groups, out, mask)


def normalized(groups, advantages, key, epsilon, count_silent):
    """(A - mu) / (sigma + epsilon) over sampled tokens of the groups with the same key."""
    out = [None] * len(groups)
    for name in {key(group) for group in groups}:
        members = [g for g, group in enumerate(groups) if key(group) == name]
        silent = {g for g in members if not count_silent and not np.any(np.concatenate(advantages[g]))}
        tokens = np.array([
            a
            for g in members
            if g not in silent
            for sample, values in zip(groups[g]["samples"], advantages[g])
            for flag, a in zip(sample["mask"], values)
            if flag
        ])
        for g in members:
            out[g] = [
                [
                    0.0 if not flag or g in silent else round(float((a - tokens.mean()) / (tokens.std() + epsilon)), 10)
                    for flag, a in zip(sample["mask"], values)
                ]
                for sample, values in zip(groups[g]["samples"], advantages[g])
            ]
    return out


def main():
    groups = make_groups(np.random.default_rng(5))
    by_task = lambda group: group["task"]
    token_values, turn_values = values_of(groups, "tokens"), values_of(groups, "turns")
    expected = {
        "grpo": grpo(groups),
        "drGrpo": dr_grpo(groups),
        "rloo": rloo(groups),
        "reinforcePlusPlus": reinforce_plus_plus(groups),
        "reinforcePlusPlusBaselinePaper": reinforce_plus_plus_baseline(groups),
        "reinforcePlusPlusBaseline": normalized(groups, dr_grpo(groups), lambda group: "", 1e-8, False),
        "gigpo": gigpo(groups, 1.0, 0.95, True),
        "gigpoNoStd": gigpo(groups, 0.5, 0.8, False),
        "taskNormalization": normalized(groups, grpo(groups), by_task, 1e-6, False),
        "taskNormalizationPaper": normalized(groups, grpo(groups), by_task, 1e-6, True),
    }
    gae_cases = []
    for level, values, settings in [
        ("token", token_values, [(1.0, 1.0), (0.9, 0.8)]),
        ("turn", turn_values, [(1.0, 0.95), (0.9, 0.5)]),
    ]:
        for gamma, lam in settings:
            advantages, returns = gae(groups, values, level, gamma, lam)
            gae_cases.append({"level": level, "gamma": gamma, "lambda": lam, "advantages": advantages, "returns": returns})
    golden = {
        "source": f"make-advantages.py: verl {importlib.metadata.version('verl')}, torch {torch.__version__}, numpy {np.__version__}, float64",
        "groups": groups,
        "expected": expected,
        "gae": {"tokenValues": token_values, "turnValues": turn_values, "cases": gae_cases},
    }
    (HERE / "advantages.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n")


main()
