"""Writes tokenizers.json: vocabularies that Hugging Face `tokenizers` trained, and what it and `transformers` make of texts.

Two tokenizers: `tiny` with the pattern and control tokens of src/text/tiny-template.ts, and `chatml` with Llama 3's
pattern, `ignore_merges`, and added tokens of every kind. For each: its tokenizer.json, ids of texts as content (control
tokens unreadable) and as markup, decoded random ids, and apply_chat_template.

Run from the project's root:  python test/golden/make-tokenizers.py     (needs tokenizers, transformers, node)
"""
import json
import os
import random
import subprocess

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

here = os.path.dirname(os.path.abspath(__file__))
root = os.path.join(here, "../..")
tiny = json.loads(
    subprocess.check_output(
        ["npx", "tsx", "-e", "import('./src/text/tiny-template.ts').then((m) => console.log(JSON.stringify(m)))"],
        cwd=root,
    )
)
rng = random.Random(0)

# ---- corpus: tool calls, SQL, relations, prose, many scripts ------------------------------------------------------

words = "film director title year person album artist city team player score country genre language river station".split()
names = "Ang Lee,Łódź,São Paulo,Zoë Saldaña,東京,Москва,O'Brien,AC/DC,New York".split(",")


def sentence():
    w = [rng.choice(words) for _ in range(3)]
    value = rng.choice(names)
    number = rng.randint(0, 3000)
    return rng.choice(
        [
            f'{{"name": "execute_sql", "arguments": {{"query": "SELECT {w[0]} FROM {w[1]}s WHERE {w[2]} = \'{value}\' AND year > {number} ORDER BY {w[0]} DESC LIMIT 1"}}}}',
            f'{{"name": "execute_sql", "arguments": {{"query": "INSERT INTO {w[0]}s ({w[1]}, {w[2]}) VALUES (\'{value}\', {number})"}}}}',
            f'{{"name": "get_neighbors", "arguments": {{"variable": "#{number % 10}", "relation": "{w[0]}.{w[1]}.{w[2]}_of_birth"}}}}',
            f"[{w[0]}.{w[1]}.{w[2]}, {w[1]}.{w[0]}.name]\n",
            f"Which {w[0]} of {value} has the most {w[1]}s?  It's {number / 10}%.",
            f"[('{value}', '{number}'), ('{w[2]}', NULL)]\r\n\r\n\t{w[0]}",
            "どの映画ですか？ 그 영화는 👩‍👩‍👧 naïve façade Ελλάδα",
        ]
    )


corpus = [sentence() for _ in range(300)]

texts = corpus[:12] + [
    "",
    " ",
    "  \n\n \t x",
    "a\u00a0b\u3000c\u2003d\u200be\ufeff",
    "e\u0301 é ñ n\u0303 \u0301",
    "👩‍👩‍👧‍👦🏳️‍🌈🇩🇪 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 \U0010ffff",
    "שלום עולם مرحبا ١٢٣ ४५६ ⅷ ² ½",
    "नमस्ते ไทย 한국어 日本語、テスト。",
    "\x00\x01\x7f\x85\u2028\u2029",
    "I'LL we've It'S don't 'tis",
    "x" * 300 + " " * 40 + "1" * 30,
    "SELECTED FROM\nWHERE  AND_OR ORDER BY",
    "<|end|><|user|>hello<|assistant|> <tool_call>{}</tool_call>",
    "<|im_start|>system\nYou<|im_end|>\n<|im_start|> assistant <|mask|>  x  <|mask|><tool_call>\n{}\n</tool_call>",
    "<|en", "d|>", "<<|end|>>", "<|end|", "</tool_call", "a    b        c",
    '{"name": "", "arguments": {}}',
    'answers": ["a", "b c"], "x": "\\"quoted\\" \\u00e9"}}',
]


def train(pattern, control, added, vocab_size, ignore_merges):
    t = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    t.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=2,
        special_tokens=[AddedToken(c, special=True, normalized=False) for c in control],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    t.train_from_iterator(corpus, trainer)
    t.add_tokens(added)
    return t


def content_tokenizer(t):
    """The same without added tokens, but for those of white space."""
    j = json.loads(t.to_str())
    gone = {a["content"] for a in j["added_tokens"] if a["special"] or a["content"].strip()}
    j["added_tokens"] = [a for a in j["added_tokens"] if a["content"] not in gone]
    j["model"]["vocab"] = {k: v for k, v in j["model"]["vocab"].items() if k not in gone}
    return Tokenizer.from_str(json.dumps(j))


tools = [
    {
        "type": "function",
        "function": {
            "name": "execute_sql",
            "description": "Run one statement: é < & \"quoted\".",
            "parameters": {
                "type": "object",
                "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}},
                "required": ["query", "limit"],
                "additionalProperties": False,
            },
        },
    }
]


def call(name, arguments):
    return {"id": "0", "type": "function", "function": {"name": name, "arguments": arguments}}


conversations = [
    {"tools": False, "messages": [{"role": "user", "content": "Hello\n"}]},
    {"tools": True, "messages": [{"role": "system", "content": "Answer  "}, {"role": "user", "content": "\n\n Hi 東京"}]},
    {"tools": True, "messages": [{"role": "user", "content": "How many films?"}]},
    {
        "tools": True,
        "messages": [
            {"role": "user", "content": "  q"},
            {"role": "assistant", "content": "", "tool_calls": [call("execute_sql", {"query": "SELECT 'é' FROM t", "limit": 3})]},
            {"role": "tool", "content": "[('a',)]\n", "tool_call_id": "0", "name": "execute_sql"},
            {"role": "tool", "content": "\nb", "tool_call_id": "1", "name": "execute_sql"},
            {"role": "assistant", "content": "It is a."},
            {"role": "user", "content": "Sure?"},
        ],
    },
]

# In the manner of Qwen 2.5 and Hermes: tools in the system message, answers of tools folded into user turns.
chatml_template = """\
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content | trim + '\\n\\n' }}
    {%- endif %}
    {{- "# Tools\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools><|im_end|>\\n" }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content | trim + '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'user' or (message.role == 'system' and not loop.first) or (message.role == 'assistant' and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- elif message.role == 'assistant' %}
        {{- '<|im_start|>assistant' }}
        {%- if message.content %}
            {{- '\\n' + message.content }}
        {%- endif %}
        {%- for tool_call in message.tool_calls %}
            {{- '\\n<tool_call>\\n{"name": "' + tool_call.function.name + '", "arguments": ' + tool_call.function.arguments | tojson + '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == 'tool' %}
        {%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}
        {%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""


def record(t, template, eos):
    content, fast = content_tokenizer(t), PreTrainedTokenizerFast(tokenizer_object=t, chat_template=template, eos_token=eos)
    random_ids = [[rng.randrange(t.get_vocab_size()) for _ in range(rng.randint(1, 12))] for _ in range(40)]
    return {
        "tokenizer": json.loads(t.to_str()),
        "template": template,
        "eos": eos,
        # By token: the smaller tokenizer numbers its added tokens anew.
        "content": [[t.token_to_id(s) for s in content.encode(x, add_special_tokens=False).tokens] for x in texts],
        "markup": [t.encode(x, add_special_tokens=False).ids for x in texts],
        "decoded": [[ids, t.decode(ids, skip_special_tokens=False)] for ids in random_ids],
        "prompts": [
            fast.apply_chat_template(
                c["messages"], tools=tools if c["tools"] else None, add_generation_prompt=True, tokenize=True, return_dict=False
            )
            for c in conversations
        ],
    }


llama3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
chatml_added = [
    AddedToken("<tool_call>", special=False, normalized=False),
    AddedToken("</tool_call>", special=False, normalized=False),
    AddedToken("<|mask|>", special=True, normalized=False, lstrip=True, rstrip=True),
    AddedToken("    ", special=False, normalized=False),
]
golden = {
    "corpus": corpus,
    "texts": texts,
    "conversations": conversations,
    "tiny": record(train(tiny["tinyPattern"], tiny["tinyControlTokens"], [], 560, False), tiny["tinyChatTemplate"], "<|end|>"),
    "chatml": record(
        train(llama3, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], chatml_added, 600, True), chatml_template, "<|im_end|>"
    ),
}
with open(os.path.join(here, "tokenizers.json"), "w") as f:
    json.dump(golden, f, ensure_ascii=False)
