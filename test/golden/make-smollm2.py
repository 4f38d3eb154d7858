"""What transformers makes of SmolLM2-135M-Instruct: greedy continuations of 20 prompts, and the loss of a fixed text.

    node scripts/fetch-smollm2.mjs FOLDER
    python test/golden/make-smollm2.py FOLDER/SmolLM2-135M-Instruct.Q4_1.gguf

needs torch, transformers and gguf; transformers dequantises the file's tensors to float32. Writes smollm2.json beside
itself. Prompts go as token ids, so that only the model is compared: transformers' reader of GGUF tokenizers ignores the
file's pre-tokenizer.
"""

import json
import pathlib
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

PROMPTS = [
    "What is the capital of France?", "Write a haiku about autumn.", "Explain gravity to a child.",
    "List three prime numbers.", "Who wrote Hamlet?", "Translate 'good morning' into Spanish.",
    "What is 12 times 7?", "Name a large river in Africa.", "Why is the sky blue?", "Give me a recipe for pancakes.",
    "How do bees make honey?", "What does HTTP mean?", "Write one sentence about the moon.",
    "What are the primary colours?", "Describe a cat.", "How many days are in a leap year?",
    "What is photosynthesis?", "Suggest a name for a dog.", "Who painted the Mona Lisa?", "What is a binary search?",
]
TEXT = (
    "The quick brown fox jumps over the lazy dog. In the beginning there was only water, and the wind moved over it. "
    "A tree grows slowly: each year adds a ring, and each ring tells of rain and of drought. People who live near the "
    "sea learn to read its colours; they know from the shape of a cloud whether the boats should stay in the harbour. "
    "Numbers can be added, subtracted, multiplied and divided, but not every number has a root that can be written down."
)

file = pathlib.Path(sys.argv[1])
kwargs = dict(gguf_file=file.name)
tokenizer = AutoTokenizer.from_pretrained(file.parent, **kwargs)
model = AutoModelForCausalLM.from_pretrained(file.parent, dtype=torch.float32, **kwargs)
model.eval()

def ids(text):
    return tokenizer(text, add_special_tokens=False)["input_ids"]

chats = [
    ids("<|im_start|>user\n" + prompt + "<|im_end|>\n<|im_start|>assistant\n") for prompt in PROMPTS
]
with torch.no_grad():
    greedy = []
    for prompt in chats:
        tokens = torch.tensor([prompt])
        out = model.generate(
            tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=64, min_new_tokens=64, do_sample=False,
            repetition_penalty=1.0, suppress_tokens=None, eos_token_id=None, pad_token_id=0,
        )
        greedy.append(out[0, len(prompt):].tolist())
    text = ids(TEXT)
    logits = model(torch.tensor([text])).logits[0].double()
    loss = torch.nn.functional.cross_entropy(logits[:-1], torch.tensor(text[1:])).item()

golden = dict(prompts=chats, greedy=greedy, text=text, loss=loss)
(pathlib.Path(__file__).parent / "smollm2.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n")
