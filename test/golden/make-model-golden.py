"""Golden files for the whole model: transformers' LlamaForCausalLM in float64 on a packed batch.

    python test/golden/make-model-golden.py

writes, beside itself, for each model below NAME.json (config, batch, log-probabilities, entropies, loss, AdamW
settings, tensor index) and NAME.bin: the weights of every tensor in the index as bfloat16 bits (each is a bfloat16 number
exactly), then the gradients of all of them as float32, then for the tensors of `adamw.tensors` the weights after
the last AdamW step as float32.

The loss is sum(c * logprob + e * entropy) over the scored rows, both of softmax(logits / temperature of the row) over
the whole vocabulary. transformers computes the rotary tables in float32 even in a float64 model; they are replaced by
float64 ones here, so that the reference is exact.
"""

import json
import pathlib

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

HERE = pathlib.Path(__file__).parent

MODELS = {
    "model-tied": dict(
        seed=1,
        lengths=[37, 1, 70, 5, 33],
        config=dict(
            vocab_size=131, hidden_size=48, intermediate_size=72, num_hidden_layers=3, num_attention_heads=3,
            num_key_value_heads=1, head_dim=16, rope_theta=10000.0, rms_norm_eps=1e-6, max_position_embeddings=128,
            tie_word_embeddings=True,
        ),
    ),
    "model-untied": dict(
        seed=2,
        lengths=[64, 2, 41, 32],
        config=dict(
            vocab_size=523, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, head_dim=8, rope_theta=500000.0, rms_norm_eps=1e-5, max_position_embeddings=96,
            tie_word_embeddings=False,
        ),
    ),
}
ADAMW = dict(lr=3e-3, beta1=0.9, beta2=0.95, eps=1e-8, weight_decay=0.1, steps=3)
ADAMW_TENSORS = ["model.embed_tokens.weight", "model.layers.0.self_attn.k_proj.weight", "model.norm.weight"]


class Rotary64(torch.nn.Module):
    def __init__(self, dim, theta):
        super().__init__()
        self.frequencies = theta ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)

    def forward(self, x, position_ids):
        angles = position_ids[..., None].double() * self.frequencies
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos(), angles.sin()


def make(name, seed, lengths, config):
    torch.manual_seed(seed)
    model = LlamaForCausalLM(LlamaConfig(**config, attn_implementation="eager")).double()
    model.model.rotary_emb = Rotary64(config["head_dim"], config["rope_theta"])
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            # Larger than at initialisation, so that attention is far from uniform and every gradient matters.
            value = torch.randn_like(parameter) * 0.25 + (1.0 if "norm" in key else 0.0)
            parameter.copy_(value.bfloat16().double())

    vocab = config["vocab_size"]
    sequences = [torch.randint(0, vocab, (length,)) for length in lengths]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).tolist()
    scored_rows, targets, temperatures, log_probs, entropies, loss = [], [], [], [], [], 0.0
    coefficients, entropy_coefficients = [], []
    for start, tokens in zip(offsets, sequences):
        rows = [row for row in range(len(tokens) - 1) if torch.rand(()) < 0.4]
        if not rows:
            continue
        temperature = (0.5 + torch.rand(len(rows))).double()  # float32 values
        target = tokens[torch.tensor(rows) + 1]
        logits = model(tokens[None]).logits[0, rows] / temperature[:, None]
        log_softmax = torch.log_softmax(logits, dim=-1)
        chosen = log_softmax.gather(1, target[:, None])[:, 0]
        entropy = -(log_softmax.exp() * log_softmax).sum(-1)
        c = torch.randn(len(rows)).double()
        e = (0.1 * torch.randn(len(rows))).double()
        loss = loss + (c * chosen + e * entropy).sum()
        scored_rows += [start + row for row in rows]
        targets += target.tolist()
        temperatures += temperature.tolist()
        coefficients += c.tolist()
        entropy_coefficients += e.tolist()
        log_probs += chosen.tolist()
        entropies += entropy.tolist()
    loss.backward()

    parameters = dict(model.named_parameters())  # a tied head is listed once, as the embedding
    blobs = []
    for parameter in parameters.values():
        blobs.append(parameter.detach().bfloat16().view(torch.int16).numpy().tobytes())
    for parameter in parameters.values():
        blobs.append(parameter.grad.float().numpy().tobytes())
    index = [{"name": key, "shape": list(parameter.shape)} for key, parameter in parameters.items()]

    # PyTorch's AdamW on a gradient that shrinks from step to step, with decay on matrices only, clipped by global norm.
    optimizer = torch.optim.AdamW(
        [
            {"params": [p for p in parameters.values() if p.dim() > 1], "weight_decay": ADAMW["weight_decay"]},
            {"params": [p for p in parameters.values() if p.dim() == 1], "weight_decay": 0.0},
        ],
        lr=ADAMW["lr"], betas=(ADAMW["beta1"], ADAMW["beta2"]), eps=ADAMW["eps"],
    )
    gradients = [p.grad.clone() for p in parameters.values()]
    grad_norm = torch.stack([g.norm() for g in gradients]).norm().item()
    max_grad_norm = 0.8 * grad_norm  # the first step is clipped, the later ones are not
    for step in range(ADAMW["steps"]):
        for p, g in zip(parameters.values(), gradients):
            p.grad = g * (1.0 - 0.3 * step)
        torch.nn.utils.clip_grad_norm_(parameters.values(), max_grad_norm)
        optimizer.step()
    for key in ADAMW_TENSORS:
        blobs.append(parameters[key].detach().float().numpy().tobytes())

    (HERE / f"{name}.bin").write_bytes(b"".join(blobs))
    record = dict(
        config=dict(model_type="llama", **config),
        tokens=torch.cat(sequences).tolist(), offsets=offsets, scoredRows=scored_rows, targets=targets,
        temperatures=temperatures, coefficients=coefficients, entropyCoefficients=entropy_coefficients,
        logProbs=log_probs, entropies=entropies, loss=loss.item(), gradNorm=grad_norm,
        adamw=dict(**ADAMW, max_grad_norm=max_grad_norm, tensors=ADAMW_TENSORS), index=index,
    )
    (HERE / f"{name}.json").write_text(json.dumps(record) + "\n")
    print(name, "loss", loss.item(), "grad norm", grad_norm, "scored", len(scored_rows))


for name, spec in MODELS.items():
    make(name, **spec)
