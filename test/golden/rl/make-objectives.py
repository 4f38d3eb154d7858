"""Golden vectors of the objectives, penalties and off-policy corrections: objectives.json.

    python make-objectives.py VERL > objectives.json

VERL is an unpacked wheel of verl 0.7.1 (pip download --no-deps verl==0.7.1; unzip); torch and numpy are needed, verl's
other dependencies are not: its loss and correction files are loaded by themselves. `source` in a case says whose code
computed it: "verl", or "paper" for what verl does not have, written here from the paper's formula. Everything is float64
on float32 inputs, gradients by autograd. Rows are trajectories, padded, with gaps that the policy did not sample, and
whatever stands there must not count.
"""
import ast
import json
import math
import pathlib
import sys
import types
from types import SimpleNamespace

import torch

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)
root = pathlib.Path(sys.argv[1]) / "verl"


def module(name, **names):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__dict__.update(names)
    return sys.modules[name]


def load(path, keep=lambda node: True):
    source = (root / path).read_text()
    tree = ast.parse(source)
    tree.body = [node for node in tree.body if keep(node)]
    space = {"__name__": path, "torch": torch, "Any": object, "Optional": object}
    exec(compile(tree, path, "exec"), space)
    return space


class Config(dict):
    """ActorConfig by attribute and by get(), as both are used."""

    __getattr__ = dict.get


for name in ["verl", "verl.trainer", "verl.utils", "verl.workers", "verl.workers.config", "omegaconf"]:
    module(name)
module("omegaconf", DictConfig=dict)
masked = load(
    "utils/torch_functional.py",
    lambda node: isinstance(node, ast.FunctionDef) and node.name.startswith("masked_"),
)
functional = module("verl.utils.torch_functional", **masked)
sys.modules["verl.utils"].__dict__.update(as_torch_index=None, group_mean_std=None, torch_functional=functional)
module("verl.utils.import_utils", deprecated=lambda *_: lambda f: f)
module("verl.trainer.config", AlgoConfig=types.SimpleNamespace)
module("verl.trainer.config.algorithm", RolloutCorrectionConfig=object)
module("verl.workers.config", ActorConfig=Config)
module("verl.workers.config.actor", PolicyLossConfig=object)
module("verl.protocol", DataProto=object)
core = load("trainer/ppo/core_algos.py")
corrections = load("trainer/ppo/rollout_corr_helper.py")

# --- the batch -------------------------------------------------------------------------------------------------------

rows, width = 7, 9
generator = torch.Generator().manual_seed(5)


def uniform(low, high):
    return low + (high - low) * torch.rand(rows, width, generator=generator)


def f32(tensor):
    return tensor.float().double()


mask = torch.tensor(
    [
        [1, 1, 1, 1, 1, 1, 1, 1, 1],
        [1, 1, 0, 0, 1, 1, 1, 0, 0],
        [0, 1, 1, 1, 0, 1, 0, 0, 0],
        [0, 0, 0, 1, 0, 0, 0, 0, 0],
        [1, 1, 1, 0, 1, 0, 1, 1, 1],
        [1, 1, 1, 1, 1, 1, 0, 0, 0],
        [1, 0, 1, 0, 1, 0, 1, 0, 1],
    ]
).double()
# Both sides of every clip, near and far; rows 4 to 6 stay close, so that GSPO's narrow band lies among them.
steps = torch.tensor([-3.5, -1.2, -0.3, -0.21, -0.1, 0.0, 0.05, 0.2, 0.26, 0.4, 1.15, 2.4, 4.0])
log_ratio = steps[torch.randint(len(steps), (rows, width), generator=generator)]
log_ratio[4] = 2e-4 * torch.linspace(0, 2, width)
log_ratio[5] = uniform(-0.2, 0.5)[5]
log_ratio[6] = -6e-4 * torch.linspace(0, 2, width)
behaviour = f32(uniform(-8, -4.1))
behaviour[:, ::2] = f32(uniform(-1.5, -0.05))[:, ::2]
log_probs = f32(torch.clamp(behaviour + log_ratio, max=-1e-3))
proximal = f32(behaviour + 0.6 * (log_probs - behaviour))
reference = f32(torch.clamp(log_probs - uniform(-2, 7), max=-1e-3))
advantages = f32(uniform(-2, 2))
advantages[1, 1] = advantages[4, 4] = 0
entropies = f32(uniform(0, 4))
kept_mass = f32(torch.where(uniform(0, 1) < 0.5, torch.ones(()), uniform(0.2, 1)))
weights = f32(torch.where(uniform(0, 1) < 0.2, torch.zeros(()), uniform(0.1, 3)))
scales = f32(uniform(0.005, 0.05))
versions = torch.randint(3, 9, (rows, width), generator=generator)
# One advantage and one share a trajectory, nothing cut, no correction.
flat_advantages = f32(torch.tensor([1.5, 0.75, -1.0, -1.25, 0.5, 0.0, -0.7])).unsqueeze(1).expand(rows, width)
flat_scales = f32(1 / (rows * mask.sum(1, keepdim=True))).expand(rows, width)
ones = torch.ones(rows, width)

batches = {
    "mixed": dict(advantages=advantages, scales=scales, keptMass=kept_mass, weights=weights, proximal=proximal),
    "flat": dict(advantages=flat_advantages, scales=flat_scales, keptMass=ones, weights=ones, proximal=behaviour),
}

# --- objectives ------------------------------------------------------------------------------------------------------


def objective(batch, term):
    """Loss and gradient of -sum_t w k c f; term gives -f of every token."""
    variable = log_probs.clone().requires_grad_()
    weight = batch["scales"] * batch["keptMass"] * batch["weights"]
    loss = (term(batch, variable) * weight * mask).sum()
    loss.backward()
    return dict(loss=loss.item(), dLogProbs=variable.grad.tolist())


def verl_term(name, **config):
    def term(batch, variable):
        seen = []
        core["agg_loss"] = lambda loss_mat, **_: seen.append(loss_mat) or loss_mat.sum()
        core[f"compute_policy_loss_{name}"](
            batch["proximal"],
            variable,
            batch["advantages"],
            mask,
            config=Config(clip_ratio=0.2, global_batch_info={}, **config),
        )
        return seen[0]

    return term


def gspo_sequence(low, high):
    """Zheng et al. 2025, Eqs. 5 and 7, the gradient through the sequence's ratio."""

    def term(batch, variable):
        mean = ((variable - batch["proximal"]) * mask).sum(1, keepdim=True) / mask.sum(1, keepdim=True)
        s = mean.exp()
        a = batch["advantages"]
        return -torch.minimum(s * a, s.clamp(1 - low, 1 + high) * a)

    return term


def clipped_ppo(low, high):
    """Schulman et al. 2017, Eq. 7: verl has it with the dual clip only."""

    def term(batch, variable):
        r = (variable - batch["proximal"]).exp()
        a = batch["advantages"]
        return -torch.minimum(r * a, r.clamp(1 - low, 1 + high) * a)

    return term


objectives = []


def case(name, options, source, term, on=("mixed", "flat")):
    for batch in on:
        objectives.append(
            dict(objective=name, options=options, batch=batch, source=source, **objective(batches[batch], term))
        )


case("ppo", {}, "paper", clipped_ppo(0.2, 0.28))
case("ppo", dict(clipLow=0.05, clipHigh=1.5), "paper", clipped_ppo(0.05, 1.5))
for low, high, dual in [(0.2, 0.2, 3.0), (0.25, 1.5, 8.0)]:
    case(
        "ppo",
        dict(clipLow=low, clipHigh=high, dualClip=dual),
        "verl",
        verl_term("vanilla", clip_ratio_low=low, clip_ratio_high=high, clip_ratio_c=dual),
    )
for low, high, options in [(3e-4, 4e-4, {}), (0.1, 0.15, dict(clipLow=0.1, clipHigh=0.15))]:
    case("gspo", dict(options, level="token"), "verl", verl_term("gspo", clip_ratio_low=low, clip_ratio_high=high))
    # For one advantage and one weight a trajectory, GSPO and GSPO-token are one: verl's code checks both.
    case("gspo", options, "verl", verl_term("gspo", clip_ratio_low=low, clip_ratio_high=high), on=["flat"])
    case("gspo", options, "paper", gspo_sequence(low, high))
for low, high, options in [(1, 4, {}), (0.3, 0.5, dict(clipLow=0.3, clipHigh=0.5))]:
    case("cispo", options, "verl", verl_term("cispo", clip_ratio_low=low, clip_ratio_high=high))
for pos, neg, options in [(1.0, 1.05, {}), (2.0, 5.0, dict(tauPos=2, tauNeg=5))]:
    case("sapo", options, "verl", verl_term("sapo", tau_pos=pos, tau_neg=neg))
for divergence, low, high, cap, options in [
    ("tv", 0.15, 0.15, 20.0, {}),
    ("kl", 0.05, 0.05, 20.0, {}),
    ("tv", 0.02, 0.1, 2.0, dict(thresholdLow=0.02, thresholdHigh=0.1, cap=2)),
    ("kl", 0.2, 0.003, 2.0, dict(thresholdLow=0.2, thresholdHigh=0.003, cap=2)),
]:
    case(
        "dppo",
        dict(options, divergence=divergence),
        "verl",
        verl_term(f"dppo_{divergence}", clip_ratio_low=low, clip_ratio_high=high, clip_ratio_c=cap),
    )

for estimator in ["k1", "k2", "k3"]:
    case(
        "kl",
        dict(estimator=estimator, coefficient=0.05),
        "verl",
        lambda batch, variable: 0.05 * core["kl_penalty"](variable, reference, estimator),
    )

# --- corrections -----------------------------------------------------------------------------------------------------

corrected = []


def correction(name, options, source, value):
    corrected.append(dict(correction=name, options=options, source=source, weights=(value * mask).tolist()))


def verl_weights(level, cap):
    # The same list as in the batch "mixed": the proximal policy against the one that sampled.
    return corrections["compute_rollout_correction_weights"](proximal - behaviour, mask, level, cap)[0]


def verl_mask(option, low, high):
    # verl bounds the inverse ratio, k1 = -log ratio.
    return corrections["compute_rollout_rejection_mask"](
        log_probs - behaviour, mask, option, f"{1 / high!r}_{1 / low!r}"
    )[0]


ratio = (proximal - behaviour).exp()
correction("none", {}, "paper", ones)
correction("decoupled", {}, "paper", ratio)
correction("decoupled", dict(cap=2), "paper", torch.where(ratio > 2, 0, ratio))
correction("tokenTis", {}, "verl", verl_weights("token", 2.0))
correction("tokenTis", dict(cap=0.9), "verl", verl_weights("token", 0.9))
correction("sequenceTis", {}, "verl", verl_weights("sequence", 2.0))
correction("sequenceTis", dict(cap=1), "verl", verl_weights("sequence", 1.0))
correction("icepop", {}, "paper", torch.where((ratio >= 0.5) & (ratio <= 5), ratio, 0))
correction("icepop", dict(low=0.9, high=1.3), "paper", torch.where((ratio >= 0.9) & (ratio <= 1.3), ratio, 0))
correction("sequenceMask", {}, "verl", verl_mask("seq_sum_k1", 0.5, 2.0))
correction("sequenceMask", dict(low=0.001, high=8), "verl", verl_mask("seq_sum_k1", 0.001, 8.0))
correction("geometricMask", {}, "verl", verl_mask("seq_mean_k1", 0.999, 1.001))
correction("geometricMask", dict(low=0.7, high=1.2), "verl", verl_mask("seq_mean_k1", 0.7, 1.2))

age = (9 - versions).double()
interpolated = torch.where(age < 1, behaviour, behaviour / age.clamp(min=1) + (1 - 1 / age.clamp(min=1)) * log_probs)

json.dump(
    dict(
        mask=mask.int().tolist(),
        logProbs=log_probs.tolist(),
        behaviour=behaviour.tolist(),
        proximal=proximal.tolist(),
        reference=reference.tolist(),
        entropies=entropies.tolist(),
        batches={
            name: {key: value.tolist() for key, value in batch.items()} for name, batch in batches.items()
        },
        objectives=objectives,
        corrections=corrected,
        interpolated=dict(versions=versions.tolist(), current=9, proximal=interpolated.tolist()),
    ),
    sys.stdout,
)
print()
