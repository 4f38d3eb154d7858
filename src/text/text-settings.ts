/** How a model's turns are written and read, where the chat template alone does not settle it. */
import { AgentRLError } from "../errors.ts";
import type { ToolFormatName } from "./formats/index.ts";
import type { Json } from "./tokenizer-json.ts";

export type TextVariables = Readonly<Record<string, string | number | boolean>>;

export interface TextSettings {
  /** `auto`, the default: as the model folder was saved with, else as the chat template shows it. */
  toolFormat?: ToolFormatName | "auto";
  /** Variables for the chat template, as enable_thinking for Qwen 3 or date_string for Llama 3. */
  templateVariables?: TextVariables | undefined;
}

/** The key of tokenizer_config.json that a saved model keeps its settings under. */
const savedKey = "agentrl";
/** What the templates get from here. */
const ownVariables = ["messages", "tools", "add_generation_prompt", "bos_token", "eos_token", "pad_token", "unk_token"];

/** The given settings over the saved ones, which they replace in `config`. */
export function mergeSettings(config: Json, given: TextSettings): TextSettings {
  const saved = (config[savedKey] ?? {}) as TextSettings;
  const { toolFormat = "auto", templateVariables } = given;
  const settings = {
    ...saved,
    ...(templateVariables && { templateVariables }),
    ...(toolFormat !== "auto" && { toolFormat }),
  };
  if (Object.keys(settings).length > 0) config[savedKey] = settings;
  return settings;
}

/** @throws AgentRLError CONFIG for a variable that does nothing in the template, or is not for the user to set. */
export function checkVariables(variables: TextVariables, template: string, where: string): void {
  for (const name of Object.keys(variables)) {
    const own = ownVariables.includes(name);
    if (!own && new RegExp(`\\b${name.replace(/\W/g, "\\W")}\\b`).test(template)) continue;
    throw new AgentRLError("CONFIG", `model.templateVariables.${name} ${own ? "cannot be set." : "has no effect."}`, {
      where,
      got: own ? `${name}, which the conversation decides` : `a chat template that does not use "${name}"`,
      expected: "variables that the chat template asks for, as enable_thinking or date_string",
      hint: `Remove ${name}.`,
    });
  }
}

const date: Record<string, string> = {
  ...{ Y: "2024", y: "24", m: "07", d: "26", j: "208", B: "July", b: "Jul", A: "Friday", a: "Fri" },
  ...{ H: "00", I: "12", M: "00", S: "00", p: "AM", "%": "%" },
};

/**
 * Templates that print the date of today (Llama 3.2's) see the day that they print where they have no clock, 26 July
 * 2024: a prompt of today's date would not be the prompt of the run that goes on tomorrow. Their own variable
 * (`date_string`) sets another.
 */
export const standingClock = {
  strftime_now: (format: string) => format.replace(/%-?(.)/g, (whole, letter: string) => date[letter] ?? whole),
};
