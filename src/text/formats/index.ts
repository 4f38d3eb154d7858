/** The tool-call formats, by name and by what a chat template shows of them. */
import { AgentRLError } from "../../errors.ts";
import type { ToolFormat, ToolFormatName } from "./format.ts";
import { hermes } from "./hermes.ts";
import { json } from "./json.ts";
import { llama3 } from "./llama3.ts";
import { qwen3Coder } from "./qwen3-coder.ts";

export { type TextPiece, type ToolFormat, type ToolFormatName, toolFormatNames } from "./format.ts";
export { formatJson } from "./json-text.ts";

/** The format of that name, laid out as the template (Jinja source) does. */
export function toolFormat(name: ToolFormatName, template = ""): ToolFormat {
  if (name === "hermes") return hermes(template.includes("<tool_call>{") ? "compact" : "lines");
  return { "qwen3-coder": qwen3Coder, llama3, json }[name];
}

/**
 * The format that a chat template's source shows, by the marks that it puts around calls. Templates that
 * write no calls belong to models that were taught none: `hermes`, which most open models use.
 * @throws AgentRLError CONFIG for a template that writes calls in another way.
 */
export function detectToolFormat(template: string, where = "chat template"): ToolFormatName {
  if (template.includes("<function=")) return "qwen3-coder";
  if (template.includes("<tool_call>")) return "hermes";
  if (template.includes("<|python_tag|>") || /\{"name": .*"parameters": /s.test(template)) return "llama3";
  const writesCalls = /\btool_calls?\b/.test(template) && /\b(?:arguments|tojson)\b/.test(template);
  if (!writesCalls) return "hermes";
  throw new AgentRLError("CONFIG", "The chat template writes tool calls in a format that is not known.", {
    where,
    got: template.slice(Math.max(0, template.search(/\btool_calls?\b/) - 60)).slice(0, 200),
    expected: "<tool_call> tags, <function=...> tags, or JSON with name and parameters",
    hint: "Set model.toolFormat to the format that the model is to use: hermes, qwen3-coder, llama3 or json.",
  });
}
