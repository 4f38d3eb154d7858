"""Greedy continuations of a model folder by transformers, or of a base and an adapter folder by transformers with PEFT:

    python test/golden/hand-back.py MODEL [ADAPTER] < prompts.json > continuations.json

Prompts are token ids; needs torch, transformers, and peft where an adapter is given.
"""

import json
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

given = json.load(sys.stdin)
model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32)
AutoTokenizer.from_pretrained(sys.argv[1])
if len(sys.argv) > 2:
    from peft import PeftModel

    model = PeftModel.from_pretrained(model, sys.argv[2])
model.eval()
continuations = []
with torch.no_grad():
    for prompt in given["prompts"]:
        tokens = torch.tensor([prompt])
        count = given["tokens"]
        out = model.generate(
            input_ids=tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=count, min_new_tokens=count,
            do_sample=False, eos_token_id=None, pad_token_id=0,
        )
        continuations.append(out[0, len(prompt):].tolist())
json.dump(continuations, sys.stdout)
