/**
 * How a model on the Hugging Face Hub is named: `org/name`, with `@revision` and `/FILE.gguf` where wanted, and with `hf://` before it
 * where it could be taken for a path. It is the notation of Python's HfFileSystem.
 */
export interface HubName {
  /** org/name */
  repo: string;
  /** Branch, tag or commit. */
  revision: string;
  /** A GGUF file of the repository, by its path there. */
  file?: string;
}

export const hubScheme = "hf://";
const part = "[A-Za-z0-9][\\w.-]*";
const pattern = new RegExp(
  `^(?:${hubScheme})?(?<repo>${part}/${part})(?:@(?<revision>refs/pr/\\d+|${part}))?(?:/(?<file>(?:${part}/)*${part}\\.gguf))?$`,
);
export const hubNotation = "org/name, org/name@revision or org/name/FILE.gguf";

/** Undefined for what can only be a path, and for a malformed name. */
export function parseHubName(text: string): HubName | undefined {
  const { repo, revision = "main", file } = pattern.exec(text)?.groups ?? {};
  // A file that is not there, rather than a repository of that name.
  if (repo === undefined || /\.(gguf|safetensors|json|ya?ml)$/.test(repo)) return undefined;
  return { repo, revision, ...(file !== undefined && { file }) };
}

/** The name so that it cannot be taken for a path. */
export function formatHubName({ repo, revision, file }: HubName): string {
  return `${hubScheme}${repo}${revision === "main" ? "" : `@${revision}`}${file === undefined ? "" : `/${file}`}`;
}
