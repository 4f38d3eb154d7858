/**
 * The text side of the tiny base model: control tokens, chat template and pre-token pattern. All three are made for a
 * model of about a million parameters that must copy names from its context: few tokens a turn, and the same ids for
 * a name wherever it stands.
 */

export const tinyTokens = {
  pad: "<|pad|>",
  system: "<|system|>",
  user: "<|user|>",
  assistant: "<|assistant|>",
  tool: "<|tool|>",
  end: "<|end|>",
  callStart: "<tool_call>",
  callEnd: "</tool_call>",
} as const;

/** In the order of their ids. */
export const tinyControlTokens: readonly string[] = Object.values(tinyTokens);

/**
 * `<|role|>content<|end|>` for each message. The system message (or one made for it) ends in a line
 * `tools: execute_sql(query) commit_final_answer(answers)`: names alone, since the tiny model learns its tools by
 * training and reads no descriptions.
 */
export const tinyChatTemplate = `\
{%- set chat = messages -%}
{%- set lines = [] -%}
{%- if messages[0].role == 'system' -%}
{%- set chat = messages[1:] -%}
{%- set lines = [messages[0].content] -%}
{%- endif -%}
{%- if tools -%}
{%- set line -%}
tools:
{%- for tool in tools -%}
{{- ' ' + tool.function.name + '(' -}}
{%- for name in tool.function.parameters.properties -%}
{{- (', ' if not loop.first else '') + name -}}
{%- endfor -%}
{{- ')' -}}
{%- endfor -%}
{%- endset -%}
{%- set lines = lines + [line] -%}
{%- endif -%}
{%- if lines -%}
{{- '<|system|>' + lines | join('\\n') + '<|end|>' -}}
{%- endif -%}
{%- for message in chat -%}
{{- '<|' + message.role + '|>' + message.content -}}
{%- for call in message.tool_calls or [] -%}
{{- '<tool_call>{"name": ' + call.function.name | tojson + ', "arguments": ' -}}
{{- call.function.arguments | tojson + '}</tool_call>' -}}
{%- endfor -%}
{{- '<|end|>' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '<|assistant|>' -}}
{%- endif -%}`;

const letter = "\\p{L}\\p{M}_";
const punctuation = `[^\\s\\p{N}${letter}]`;
const notQuote = `[^\\s\\p{N}${letter}"]`;
const keyword = `(?:${[
  ..."SELECT DISTINCT FROM WHERE AND OR NOT IN LIKE IS NULL BETWEEN ORDER GROUP BY ASC DESC LIMIT HAVING".split(" "),
  ..."INSERT INTO VALUES UPDATE SET DELETE COUNT SUM AVG MIN MAX CAST AS JOIN ON".split(" "),
].join("|")})(?![\\p{N}${letter}])`;

/**
 * Pre-tokens, by the first alternative that matches:
 * 1. the fixed parts of a tool call's JSON;
 * 2. SQL keywords with the spaces around them: ` ORDER BY ` is one token, and leaves the names beside it bare;
 * 3. words, underscores inside, never with a space: `title` has the same ids in `title, year` and `SELECT title FROM`;
 * 4. single digits;
 * 5. punctuation joined over single spaces, with the spaces around it: ` = '`, `), (`;
 * 6. the same from a double quote on: JSON's quotes never join what the string before them ends in (`'` + `"}}`);
 * 7. white space.
 */
export const tinyPattern = [
  '\\{"name": "',
  '", "arguments": \\{"',
  ` ?${keyword}(?: ${keyword})* ?`,
  `[${letter}]+`,
  "\\p{N}",
  ` ?${notQuote}+(?: ${notQuote}+)* ?`,
  ` ?"${punctuation}*(?: ${punctuation}+)* ?`,
  "\\s+",
].join("|");
