"""Writes test/golden/gguf/: what Python's `gguf`, `tokenizers` and `transformers` make of GGUF files.

types.json       for each tensor type random blocks, and the float32 numbers that gguf.quants.dequantize gives
FAMILY.gguf      a Llama, a Qwen2 and a Qwen3 of random weights in several types, with a byte-level BPE
models.json      their config.json, SHA-256 of their tensors as Hugging Face orders rows, and token ids of a prompt;
                 transformers' own GGUF loader gives the same tensors, or this script fails
tokenizers.json  a BPE for each pre-tokenizer as GGUF metadata, with the ids that `tokenizers` gives
rope.json        frequency factors of Llama 3's position scaling, from transformers

Run from the project's root:  python scripts/golden/make-gguf.py     (needs gguf, torch, transformers, tokenizers)
"""
import base64
import hashlib
import json
import os
import random

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Type
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)
from transformers.convert_slow_tokenizer import TikTokenConverter
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.qwen2.tokenization_qwen2 import PRETOKENIZE_REGEX as qwen2_pattern

out = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../test/golden/gguf")
os.makedirs(out, exist_ok=True)
rng = np.random.default_rng(0)


def write(name, value):
    with open(os.path.join(out, name), "w") as f:
        json.dump(value, f, ensure_ascii=False)


def base64_of(array):
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()


# ---- tensor types -------------------------------------------------------------------------------------------------

# Where the float16 numbers of a block lie: random bits there would be infinite now and then.
halves = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}
types = {}
for name in ["F32", "F16", "BF16", *halves]:
    block, size = gguf.GGML_QUANT_SIZES[Type[name]]
    blocks = 4 if block > 1 else 64
    raw = rng.integers(0, 256, (blocks, size), dtype=np.uint8)
    if name == "F32":
        raw = rng.standard_normal(blocks).astype(np.float32).view(np.uint8)
    if name == "F16":
        raw = (rng.standard_normal(blocks) * 2.0 ** rng.integers(-20, 5, blocks)).astype(np.float16).view(np.uint8)
    if name == "BF16":
        raw = (rng.standard_normal(blocks).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    for at in halves.get(name, []):
        # Normal and subnormal numbers of both signs.
        scales = rng.standard_normal(blocks) * 10.0 ** rng.integers(-7, 2, blocks)
        raw[:, at : at + 2] = scales.astype(np.float16).reshape(-1, 1).view(np.uint8)
    values = gguf.quants.dequantize(raw.reshape(-1), Type[name]).astype(np.float32)
    assert np.isfinite(values).all()
    types[name] = {"raw": base64_of(raw), "values": base64_of(values)}
write("types.json", types)

# ---- tokenizers ---------------------------------------------------------------------------------------------------

random.seed(0)
parts = (
    "The quick brown fox isn't lazy|SELECT title FROM films WHERE year > 1999;|for (let i = 0; i < 10; i++) {|    return x\n\n|"
    "naïve façade, Ελλάδα|Москва и Łódź|東京の映画ですか？|한국어 문장|नमस्ते दुनिया|مرحبا ١٢٣|👩‍👩‍👧 ok|it's WE'LL you'd I'M|"
    "12345 67 8|3.14159e-10|<tag attr='1'>|\t\ttabs\r\n|e\u0301 é ﬁ ² ½ Ⅷ|   spaces   |a_b-c.d/e|\u00a0nbsp\u3000ideographic"
).split("|")
corpus = [" ".join(random.sample(parts, 4)) for _ in range(200)]
texts = ["", " ", "  \n \n\tx", "<|im_end|> is text", "don't DON'T 'Sup '\n'", "x1y22z333 ٣٤ ④", "\ufeffbom\u200bzero"]
texts += ["".join(random.sample(parts, 3)) for _ in range(30)]
byte_level = lambda regex: pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=regex)
split = lambda pattern: pre_tokenizers.Sequence(
    [pre_tokenizers.Split(Regex(pattern), behavior="isolated"), byte_level(False)]
)
llama3_pattern = TikTokenConverter().pattern
kinds = {
    "gpt-2": (byte_level(True), None, False),
    "llama-bpe": (split(llama3_pattern), None, True),
    "qwen2": (split(qwen2_pattern), normalizers.NFC(), False),
    "smollm": (pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level(True)]), None, False),
}
control = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
markup = ["<tool_call>", "</tool_call>"]


def train(kind, size=430):
    pre_tokenizer, normalizer, ignore_merges = kinds[kind]
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=control,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus, trainer)
    tokenizer.add_tokens([AddedToken(token, normalized=False) for token in markup])
    return tokenizer


def metadata(tokenizer, kind):
    vocab = tokenizer.get_vocab()
    tokens = sorted(vocab, key=vocab.get)
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in json.loads(tokenizer.to_str())["model"]["merges"]]
    token_type = {**{t: gguf.TokenType.CONTROL for t in control}, **{t: gguf.TokenType.USER_DEFINED for t in markup}}
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": kind,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [int(token_type.get(token, gguf.TokenType.NORMAL)) for token in tokens],
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.bos_token_id": vocab["<|im_start|>"],
        "tokenizer.ggml.eos_token_id": vocab["<|im_end|>"],
    }


def ids(tokenizer, text):
    """Ids of the text as content: no control token is read in it."""
    content = json.loads(tokenizer.to_str())
    content["added_tokens"] = []
    for token in control:
        del content["model"]["vocab"][token]
    return Tokenizer.from_str(json.dumps(content)).encode(text, add_special_tokens=False).ids


trained = {kind: train(kind) for kind in kinds}
write(
    "tokenizers.json",
    {
        "texts": texts,
        "kinds": {
            kind: {"metadata": metadata(tokenizer, kind), "ids": [ids(tokenizer, text) for text in texts]}
            for kind, tokenizer in trained.items()
        },
    },
)

# ---- models ------------------------------------------------------------------------------------------------------

template = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
heads, kv_heads, head_dim = 4, 2, 8
theta = 100000.0


def permute(weights, heads):
    """As llama.cpp's converter orders the rows of q and k (LlamaModel.permute)."""
    return weights.reshape(heads, 2, weights.shape[0] // heads // 2, *weights.shape[1:]).swapaxes(1, 2).reshape(weights.shape)


def unpermute(weights, heads):
    return weights.reshape(heads, weights.shape[0] // heads // 2, 2, *weights.shape[1:]).swapaxes(1, 2).reshape(weights.shape)


# By part of Hugging Face's name; what is not named, or is a vector, is F32.
kinds_of = {"q_proj": "Q8_0", "k_proj": "F16", "v_proj": "Q5_1", "o_proj": "Q4_1", "gate_proj": "Q4_0", "up_proj": "BF16", "down_proj": "Q5_0", "embed_tokens": "Q8_0", "lm_head": "Q8_0"}


def make(family, model_class, config_class, arch, pre, tied):
    tokenizer = trained[pre]
    config = config_class(
        vocab_size=448,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=head_dim,
        max_position_embeddings=512,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": theta},
        tie_word_embeddings=tied,
        bos_token_id=1,
        eos_token_id=2,
    )
    torch.manual_seed(0)
    model = model_class(config)
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1:
            parameter.data += 0.1 * torch.randn_like(parameter)

    names = gguf.get_tensor_name_map(arch, config.num_hidden_layers)
    writer = gguf.GGUFWriter(os.path.join(out, f"{family}.gguf"), family)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    if family == "qwen3":
        writer.add_key_length(head_dim)
        writer.add_value_length(head_dim)
    writer.add_rope_freq_base(theta)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    given = metadata(tokenizer, pre)
    unused = config.vocab_size - len(given["tokenizer.ggml.tokens"])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(given["tokenizer.ggml.tokens"] + [f"[PAD{i}]" for i in range(unused)])
    writer.add_token_types(given["tokenizer.ggml.token_type"] + [int(gguf.TokenType.UNUSED)] * unused)
    writer.add_token_merges(given["tokenizer.ggml.merges"])
    writer.add_bos_token_id(given["tokenizer.ggml.bos_token_id"])
    writer.add_eos_token_id(given["tokenizer.ggml.eos_token_id"])
    writer.add_add_bos_token(False)
    writer.add_chat_template(template)
    tensors = {}
    for name, parameter in model.named_parameters():
        data = parameter.detach().numpy()
        rows = next((rows for role, rows in (("q_proj", heads), ("k_proj", kv_heads)) if family == "llama" and role in name), None)
        if rows is not None:
            data = permute(data, rows)
        kind = Type["F32" if data.ndim == 1 else next((kind for part, kind in kinds_of.items() if part in name), "F32")]
        raw = gguf.quants.quantize(data, kind)
        stored = gguf.quants.dequantize(raw, kind).astype(np.float32).reshape(data.shape)
        tensors[name] = np.ascontiguousarray(stored if rows is None else unpermute(stored, rows))
        writer.add_tensor(names.get_name(name, try_suffixes=(".weight", ".bias")), raw, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    # Given the config, since its own reading of Qwen3's leaves out the width of a head.
    loaded = model_class.from_pretrained(out, gguf_file=f"{family}.gguf", config=config, dtype=torch.float32).state_dict()
    for name, tensor in tensors.items():
        assert np.array_equal(loaded[name].numpy(), tensor), name
    keys = "vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads num_key_value_heads head_dim max_position_embeddings rms_norm_eps tie_word_embeddings bos_token_id eos_token_id model_type".split()
    return {
        "config": {**{key: getattr(config, key) for key in keys}, "rope_theta": theta},
        "tensors": {
            name: {"shape": list(tensor.shape), "sha256": hashlib.sha256(tensor.tobytes()).hexdigest()}
            for name, tensor in tensors.items()
        },
        "prompt": tokenizer.encode("<|im_start|>user\nIt's 42 <tool_call><|im_end|>\n<|im_start|>assistant\n", add_special_tokens=False).ids,
    }


write(
    "models.json",
    {
        "llama": make("llama", LlamaForCausalLM, LlamaConfig, gguf.MODEL_ARCH.LLAMA, "smollm", True),
        "qwen2": make("qwen2", Qwen2ForCausalLM, Qwen2Config, gguf.MODEL_ARCH.QWEN2, "qwen2", True),
        "qwen3": make("qwen3", Qwen3ForCausalLM, Qwen3Config, gguf.MODEL_ARCH.QWEN3, "qwen2", False),
    },
)

# ---- Llama 3's positions ------------------------------------------------------------------------------------------

rope = []
for factor, head_dim in [(8.0, 128), (32.0, 64)]:
    scaled = LlamaConfig(
        hidden_size=head_dim,
        num_attention_heads=1,
        head_dim=head_dim,
        max_position_embeddings=131072,
        rope_parameters={
            "rope_type": "llama3",
            "rope_theta": 500000.0,
            "factor": factor,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        },
    )
    inverse, _ = ROPE_INIT_FUNCTIONS["llama3"](scaled, device="cpu")
    plain = 1.0 / (500000.0 ** (torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim))
    rope.append({"theta": 500000, "factor": factor, "factors": (plain / inverse).tolist()})
write("rope.json", rope)
