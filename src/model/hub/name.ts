/**
 * How a model on the Hugging Face Hub is named: `org/name`, with `@revision` and `/FILE.gguf` where wanted, and with `hf://` before it
 * where it could be taken for a path. It is the notation of Python's HfFileSystem.
 */
import { AgentRLError } from "../../errors.ts";

export interface HubName {
  /** org/name */
  repo: string;
  /** Branch, tag or commit. */
  revision: string;
  /** A GGUF file of the repository, by its path there. */
  file?: string;
}

const scheme = "hf://";
const part = "[A-Za-z0-9][\\w.-]*";
const pattern = new RegExp(
  `^(?:${scheme})?(?<repo>${part}/${part})(?:@(?<revision>refs/pr/\\d+|${part}))?(?:/(?<file>(?:${part}/)*${part}\\.gguf))?$`,
);
export const hubNotation = "org/name, org/name@revision or org/name/FILE.gguf";

/** Undefined for what can only be a path. @throws AgentRLError HUB for hf:// with a malformed name */
export function parseHubName(text: string): HubName | undefined {
  const { repo, revision = "main", file } = pattern.exec(text)?.groups ?? {};
  // A file that is not there, rather than a repository of that name.
  if (repo !== undefined && !/\.(gguf|safetensors|json|ya?ml)$/.test(repo)) {
    return { repo, revision, ...(file !== undefined && { file }) };
  }
  if (!text.startsWith(scheme)) return undefined;
  throw new AgentRLError("HUB", "The name of a model on the Hugging Face Hub is malformed.", {
    got: text,
    expected: `hf:// and ${hubNotation}`,
    hint: "Copy the name from the model's page.",
  });
}

/** The name so that it cannot be taken for a path. */
export function formatHubName({ repo, revision, file }: HubName): string {
  return `${scheme}${repo}${revision === "main" ? "" : `@${revision}`}${file === undefined ? "" : `/${file}`}`;
}
