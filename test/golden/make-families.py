"""Golden checkpoints of every model family: small, randomly initialised, as transformers writes them, with what it computes.

    python test/golden/make-families.py

needs torch, transformers, peft and safetensors. For each family below it writes families/NAME/: config.json and
model.safetensors by save_pretrained, and golden.safetensors with

    tokens [n], lengths [sequences]: the sequences, one behind the other, as float32
    logits [n, vocab] as float32, computed in float64
    loss [1]: mean of -log softmax(logits)[next token] over all tokens but the last of each sequence
    grad.NAME: its gradient, for every parameter

and, where the family has `lora`, adapter/ as PEFT writes it (A and B both random), and lora.logits, lora.loss and
lora.grad.NAME for the adapted model with everything else frozen.

transformers computes rotary angles in float32 whatever the model's type; positions here are few, so that this is far
below the tolerance of the comparison.
"""

import pathlib
import shutil

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen2Config, Qwen3Config

HERE = pathlib.Path(__file__).parent / "families"
SIZE = dict(vocab_size=61, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=3)
LENGTHS = [29, 1, 40]

FAMILIES = {
    "smollm2": (LlamaConfig(
        **SIZE, num_key_value_heads=1, rope_theta=100000.0, rms_norm_eps=1e-5, max_position_embeddings=64,
        tie_word_embeddings=True,
    ), None),
    "llama3": (LlamaConfig(
        **SIZE, num_key_value_heads=3, rope_theta=500000.0, rms_norm_eps=1e-5, max_position_embeddings=64,
        tie_word_embeddings=False,
        rope_scaling=dict(
            rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
            original_max_position_embeddings=16,
        ),
    ), None),
    "qwen2": (Qwen2Config(
        **SIZE, num_key_value_heads=1, rope_theta=1000000.0, rms_norm_eps=1e-6, max_position_embeddings=64,
        tie_word_embeddings=True,
    ), dict(r=3, lora_alpha=12, target_modules=["q_proj", "v_proj", "down_proj"])),
    "qwen3": (Qwen3Config(
        **SIZE, num_key_value_heads=1, head_dim=16, rope_theta=1000000.0, rms_norm_eps=1e-6,
        max_position_embeddings=64, tie_word_embeddings=False,
    ), dict(r=4, lora_alpha=8, target_modules="all-linear")),
}


def measure(model, sequences):
    logits, loss, count = [], 0.0, 0
    for tokens in sequences:
        out = model(tokens[None]).logits[0]
        logits.append(out.detach().float())
        log_softmax = torch.log_softmax(out[:-1], dim=-1)
        loss = loss - log_softmax.gather(1, tokens[1:, None]).sum()
        count += len(tokens) - 1
    loss = loss / count
    loss.backward()
    return torch.cat(logits), loss.detach().float().reshape(1)


def make(name, config, lora):
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    torch.manual_seed(len(name))
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            # Larger than at initialisation, biases too, so that every gradient matters.
            parameter.copy_(torch.randn_like(parameter) * 0.2 + (1.0 if "norm" in key else 0.0))
    model.save_pretrained(folder)
    model = model.double()
    sequences = [torch.randint(0, config.vocab_size, (length,)) for length in LENGTHS]
    logits, loss = measure(model, sequences)
    golden = dict(tokens=torch.cat(sequences).float(), lengths=torch.tensor(LENGTHS).float(), logits=logits, loss=loss)
    for key, parameter in model.named_parameters():
        golden[f"grad.{key}"] = parameter.grad.float()
    if lora is not None:
        adapted = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", **lora), autocast_adapter_dtype=False)
        with torch.no_grad():
            for key, parameter in adapted.named_parameters():
                if "lora_" in key:
                    parameter.copy_((torch.randn_like(parameter) * 0.3).float().double())
        adapted.float().save_pretrained(folder / "adapter")
        adapted = adapted.double()
        (folder / "adapter" / "README.md").unlink()
        for parameter in adapted.parameters():
            parameter.grad = None
        golden["lora.logits"], golden["lora.loss"] = measure(adapted, sequences)
        for key, parameter in adapted.named_parameters():
            if parameter.requires_grad:
                golden[f"lora.grad.{key}"] = parameter.grad.float()
    save_file(golden, folder / "golden.safetensors")


for name, (config, lora) in FAMILIES.items():
    make(name, config, lora)
