"""Writes conversations.json.gz: 1,000 varied conversations, and what transformers makes of them with the chat templates
and tokenizers of four families: SmolLM2, Qwen 2.5, Qwen 3, Llama 3.

Vocabularies of these models are megabytes, and their templates are their makers'. So the file holds, for each family, a
small vocabulary trained with the family's own normalizer, pre-tokenizer and added tokens, and a template written here with
the constructs of the family's. Given a folder of real ones (see fetch-families.py), it also holds what those give:
hashes alone, for whoever has the folder.

Left out: contents that hold a control token's text, which this project keeps from forming one (transformers does not);
whole-number floats and integer-like keys, which JavaScript cannot tell from, or sorts before, others.

Run from the project's root:  python test/golden/make-conversations.py [FOLDER]     (needs tokenizers, transformers)
"""
import gzip
import hashlib
import json
import os
import random
import sys
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

here = os.path.dirname(os.path.abspath(__file__))
rng = random.Random(7)

# ---- conversations ------------------------------------------------------------------------------------------------

# Starts of blocks of 64 code points, one or more for each script in use.
blocks = (
    "0041 00C0 0100 0180 0250 0370 0400 0531 05D0 0620 0700 0780 07C0 0800 0904 0985 0A05 0A85 0B05 0B85 0C05 0C85 0D05 0D85 "
    "0E01 0E81 0F00 1000 10A0 1100 1200 13A0 1400 1680 16A0 1700 1780 1820 1900 1950 1A00 1B05 1B83 1BC0 1C00 1C50 1D00 1E00 "
    "1F00 2070 20A0 2100 2150 2190 2200 2460 2500 25A0 2600 2700 2C00 2C60 2C80 2D00 2D30 3041 30A1 3105 3131 3400 4E00 5B57 "
    "9000 A000 A4D0 A500 A640 A6A0 A720 A800 A840 A882 A930 A960 A980 AA00 AA80 AB00 AB70 AC00 C548 F900 FB00 FB50 FE70 FF00 "
    "10000 10280 10330 10380 10400 10450 10480 10900 10A00 11005 11083 11103 12000 13000 14400 16800 1B000 1D400 1E900 1F300 "
    "1F600 1F680 1F900 20000"
).split()
odd = [
    "", " ", "\n", "\r\n", "\t", "  \n\n \t x", "\r\n\r\nline\r\n", "a\u00a0b\u3000c\u2003d\u200be\ufeff", "\ufeffstart", "end\ufeff",
    "\x1cseparated\x1f", "\x85next\x85", "\u2028line\u2029", "e\u0301 é ñ n\u0303 \u0301x", "Å \u212b A\u030a \u1e9b\u0323", "q\u0307\u0323 q\u0323\u0307",
    "한글 \u1112\u1161\u11ab", "👩‍👩‍👧‍👦🏳️‍🌈🇩🇪🇺🇳 👍🏽", "z\u0351\u036b\u0343\u032a\u0302\u036b\u033d\u034f\u0334\u0319", "שלום \u202eעולם\u202c مرحبا", "١٢٣ ४५६ ⅷ ² ½ ㊷ 12345678",
    "नमस्ते क्षि ไทย កម្ពុជា", "\x00\x01\x7f", "I'LL we'Ve It'S don'T 'tis I'\u017f you'\u212a", "x" * 120, " " * 40 + "1" * 30, "a    b        c",
    '{"a": [1, 2.5, null], "b": "\\u00e9\\n"}', "```json\n{}\n```", "def f(x):\n\treturn x**2  # ²\n", "https://例え.jp/?q=a%20b&c=<d>",
    "<div>&amp;</div>", "< | im_end | >", "$\\sum_{i=0}^n x_i$", "...!!??¿¡«»“”‘’—–", "SELECT * FROM t WHERE a='x';--", "\uFDD0\uFDD0", "\ufffd", "A\r", "\n\nB\n\n",
    "snake_case CamelCase kebab-case", "1,234,567.89 −3 1e-5 0x1F", "\U0010ffff\ue000",
]


def word():
    start = int(rng.choice(blocks), 16)
    letters = [chr(start + rng.randrange(64)) for _ in range(rng.randint(1, 5))]
    # Python's, Node's and the tokenizers' versions of Unicode differ in what is assigned.
    return "".join(c for c in letters if unicodedata.category(c) not in ("Cn", "Cs"))


def content():
    kind = rng.random()
    if kind < 0.06:
        return ""
    if kind < 0.35:
        return rng.choice(odd)
    parts = [rng.choice(odd) if rng.random() < 0.15 else word() for _ in range(rng.randint(1, 7))]
    return rng.choice(["", " ", " ", "\n", ", "]).join(parts)


def value(depth=0):
    kind = rng.randrange(9 if depth < 2 else 6)
    if kind == 0:
        return rng.choice([0, -1, 7, 123456789012345])
    if kind == 1:
        return rng.choice([0.5, -2.25, 1e-5, 3.5e-7, 1.5e-10, 123456.789, 0.0001])
    if kind == 2:
        return rng.choice([True, False, None])
    if kind < 6:
        return content()
    if kind == 6:
        return [value(depth + 1) for _ in range(rng.randrange(3))]
    return {key: value(depth + 1) for key in rng.sample(["a", "b_c", "ключ", "k k", 'q"', ""], rng.randrange(3))}


names = ["search", "execute_sql", "get_weather", "finish", "выбор", "f-1"]


def tool(name):
    kinds = ["string", "integer", "number", "boolean"]
    properties = {
        key: rng.choice(
            [
                {"type": rng.choice(kinds), "description": content()},
                {"type": "string", "enum": [word() or "a", "b"]},
                {"type": "array", "items": {"type": rng.choice(kinds)}, "minItems": 1},
                {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
                {"type": "object", "properties": {}, "additionalProperties": False},
            ]
        )
        for key in rng.sample(["query", "limit", "city", "unit", "über"], rng.randrange(4))
    }
    schema = {"type": "object", "properties": properties, "required": list(properties)[:1]}
    return {"type": "function", "function": {"name": name, "description": content(), "parameters": schema}}


def conversation():
    tools = [tool(name) for name in rng.sample(names, rng.randint(1, 3))] if rng.random() < 0.45 else []
    messages = [{"role": "system", "content": content()}] if rng.random() < 0.4 else []
    thinks = rng.random() < 0.4
    calls_made = 0
    for _ in range(rng.randint(1, 3)):
        messages.append({"role": "user", "content": content()})
        for _ in range(rng.choice([0, 0, 1, 1, 2]) if tools else 0):
            calls = [
                {"id": str(i), "name": rng.choice(names), "arguments": {k: value() for k in rng.sample(["query", "limit", "x y", "ф"], rng.randrange(3))}}
                for i in range(rng.choice([1, 1, 1, 2, 3]))
            ]
            messages.append({"role": "assistant", "content": rng.choice(["", content()]), "toolCalls": calls})
            messages += [{"role": "tool", "content": content(), "toolCallId": c["id"], "name": c["name"]} for c in calls]
            calls_made += 1
        if rng.random() < 0.7:
            messages.append({"role": "assistant", "content": content()})
    if messages[-1]["role"] == "assistant" and rng.random() < 0.7:
        messages.append({"role": "user", "content": content()})
    for message in messages:
        if message["role"] == "assistant" and thinks and rng.random() < 0.7:
            message["thinking"] = content()
    return {"tools": tools, "messages": messages}


conversations = [conversation() for _ in range(1000)]


def to_openai(message, single_call):
    out = {"role": message["role"], "content": message["content"]}
    if "thinking" in message:
        out["reasoning_content"] = message["thinking"]
    if "toolCalls" in message:
        calls = message["toolCalls"][:1] if single_call else message["toolCalls"]
        out["tool_calls"] = [{"id": c["id"], "type": "function", "function": {"name": c["name"], "arguments": c["arguments"]}} for c in calls]
    if "toolCallId" in message:
        out |= {"tool_call_id": message["toolCallId"], "name": message["name"]}
    return out


# ---- families -----------------------------------------------------------------------------------------------------

qwen_pattern = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
llama_pattern = qwen_pattern.replace(r"|\p{N}|", r"|\p{N}{1,3}|")


def split(pattern):
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), byte_level])


smollm_template = """\
{% for message in messages %}
{% if loop.first and message['role'] != 'system' %}{{ '<|im_start|>system\\nBe helpful.<|im_end|>\\n' }}{% endif %}
{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}
{% endfor %}
{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}
"""

tools_block = """\
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    SYSTEM
    {{- "# Tools\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools>\\nAnswer with <tool_call>\\n{\\"name\\": ..., \\"arguments\\": ...}\\n</tool_call><|im_end|>\\n" }}
{%- else %}
    PLAIN
{%- endif %}
"""
tool_results = """\
    {%- elif message.role == "tool" %}
        {%- if loop.first or messages[loop.index0 - 1].role != "tool" %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}
        {%- if loop.last or messages[loop.index0 + 1].role != "tool" %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
"""

# A default system message; calls on lines of their own; results of tools folded into one user turn.
qwen25_template = (
    tools_block.replace(
        "SYSTEM",
        "{%- if messages[0]['role'] == 'system' %}{{- messages[0]['content'] }}{%- else %}{{- 'Be helpful.' }}{%- endif %}{{- '\\n\\n' }}",
    ).replace(
        "PLAIN",
        "{{- '<|im_start|>system\\n' + (messages[0].content if messages[0].role == 'system' else 'Be helpful.') + '<|im_end|>\\n' }}",
    )
    + """\
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>' + message.role }}
        {%- if message.content %}
            {{- '\\n' + message.content }}
        {%- endif %}
        {%- for call in message.tool_calls %}
            {{- '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
            {{- call.function.arguments | tojson }}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
"""
    + tool_results
    + "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
)

# Thinking only in the turns after the last question; strip, lstrip and split with characters; namespaces and slices.
qwen3_template = (
    tools_block.replace("SYSTEM", "{%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}").replace(
        "PLAIN",
        "{%- if messages[0].role == 'system' %}{{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}{%- endif %}",
    )
    + """\
{%- set ns = namespace(searching=true, last_question=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.searching and message.role == "user" and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.searching = false %}
        {%- set ns.last_question = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.role == "user" or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set content = message.content %}
        {%- set thoughts = '' %}
        {%- if message.reasoning_content is defined and message.reasoning_content is not none %}
            {%- set thoughts = message.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set thoughts = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {{- '<|im_start|>assistant\\n' }}
        {%- if loop.index0 > ns.last_question and (loop.last or thoughts) %}
            {{- '<think>\\n' + thoughts.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
        {%- else %}
            {{- content }}
        {%- endif %}
        {%- for call in message.tool_calls or [] %}
            {%- if content or not loop.first %}{{- '\\n' }}{%- endif %}
            {{- '<tool_call>\\n{"name": "' }}{{- call.function.name }}{{- '", "arguments": ' }}
            {%- if call.function.arguments is string %}
                {{- call.function.arguments }}
            {%- else %}
                {{- call.function.arguments | tojson }}
            {%- endif %}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
"""
    + tool_results
    + """\
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}
{%- endif %}"""
)

# A date; tools in the first question, as indented JSON; contents trimmed; one call a turn; results as JSON strings.
llama_template = """\
{{- bos_token }}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- set system = "" %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system = messages[0]['content'] | trim %}
    {%- set messages = messages[1:] %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if tools is not none %}{{- "Environment: ipython\\n" }}{%- endif %}
{{- "Today Date: " + date_string + "\\n\\n" + system + "<|eot_id|>" }}
{%- if tools is not none %}
    {%- if messages | length == 0 %}{{- raise_exception("no question to put the tools into") }}{%- endif %}
    {{- '<|start_header_id|>user<|end_header_id|>\\n\\nAnswer as {"name": function name, "parameters": dictionary}.\\n\\n' -}}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
    {{- messages[0]['content'] | trim + "<|eot_id|>" }}
    {%- set messages = messages[1:] %}
{%- endif %}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls | length == 1 %}
            {{- raise_exception("one call at once") }}
        {%- endif %}
        {%- set call = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n{"name": "' + call.name + '", "parameters": ' }}
        {{- call.arguments | tojson }}
        {{- "}<|eot_id|>" }}
    {%- else %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}"""

qwen_special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
qwen_plain = ["<tool_call>", "</tool_call>"]
thinking = ["<tool_response>", "</tool_response>", "<think>", "</think>"]
families = {
    "smollm2": dict(
        pre=pre_tokenizers.Sequence([pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(add_prefix_space=False)]),
        special=["<|endoftext|>", "<|im_start|>", "<|im_end|>"], plain=[], template=smollm_template, bos="<|im_start|>", eos="<|im_end|>",
    ),
    "qwen2.5": dict(
        pre=split(qwen_pattern), normalizer=normalizers.NFC(), special=qwen_special, plain=qwen_plain,
        template=qwen25_template, eos="<|im_end|>",
    ),
    "qwen3": dict(
        pre=split(qwen_pattern), normalizer=normalizers.NFC(), special=qwen_special, plain=qwen_plain + thinking,
        template=qwen3_template, eos="<|im_end|>",
    ),
    "llama3": dict(
        pre=split(llama_pattern), ignore_merges=True, plain=[], template=llama_template, bos="<|begin_of_text|>", eos="<|eot_id|>",
        special=["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>", "<|python_tag|>"],
    ),
}


def texts(x):
    if isinstance(x, str):
        yield x
    elif isinstance(x, dict):
        for key, item in x.items():
            yield key
            yield from texts(item)
    elif isinstance(x, list):
        for item in x:
            yield from texts(item)


def train(family):
    t = Tokenizer(models.BPE(ignore_merges=family.get("ignore_merges", False)))
    t.pre_tokenizer = family["pre"]
    if "normalizer" in family:
        t.normalizer = family["normalizer"]
    t.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=700, min_frequency=2, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False,
        special_tokens=[AddedToken(c, special=True, normalized=False) for c in family["special"]],
    )
    t.train_from_iterator(list(texts(conversations[:200])) + [family["template"]], trainer)
    t.add_tokens([AddedToken(c, special=False, normalized=False) for c in family["plain"]])
    return t


def short_hash(data):
    return hashlib.sha256(data).hexdigest()[:6]


def record(fast, name, full):
    """For each conversation the beginnings of two SHA-256: of the text in UTF-8, and of the ids as little-endian uint32."""
    hashes, whole = [], []
    for i, c in enumerate(conversations):
        text = fast.apply_chat_template(
            [to_openai(m, name == "llama3") for m in c["messages"]],
            tools=c["tools"] or None,
            add_generation_prompt=True,
            tokenize=False,
            date_string="26 Jul 2024",
        )
        ids = fast(text, add_special_tokens=False)["input_ids"]
        hashes.append(short_hash(text.encode()) + short_hash(b"".join(n.to_bytes(4, "little") for n in ids)))
        if i < full:
            whole.append({"text": text, "ids": ids})
    return hashes, whole


out = {"conversations": conversations, "families": {}, "real": {}}
for name, family in families.items():
    t = train(family)
    named = {f"{kind}_token": family[kind] for kind in ("bos", "eos") if kind in family}
    fast = PreTrainedTokenizerFast(tokenizer_object=t, chat_template=family["template"], **named)
    hashes, whole = record(fast, name, 3)
    out["families"][name] = {
        "tokenizer": json.loads(t.to_str()), "config": {**named, "chat_template": family["template"]}, "hashes": hashes, "whole": whole,
    }
    if len(sys.argv) > 1:
        folder = os.path.join(sys.argv[1], name)
        config = json.load(open(os.path.join(folder, "tokenizer_config.json")))
        t = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
        named = {k: config[k] for k in ("bos_token", "eos_token") if config.get(k)}
        fast = PreTrainedTokenizerFast(tokenizer_object=t, chat_template=config["chat_template"], **named)
        out["real"][name] = record(fast, name, 0)[0]

with gzip.GzipFile(os.path.join(here, "conversations.json.gz"), "wb", mtime=0) as f:
    f.write(json.dumps(out, ensure_ascii=False).encode())
