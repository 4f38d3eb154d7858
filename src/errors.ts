/**
 * The one error class a user meets. A message says what was wrong, where, what was got, what was expected and what to
 * do; `code` is stable, for programs and for the troubleshooting page.
 */
export type ErrorCode =
  | "CONFIG"
  | "MODEL_FILE"
  | "HUB"
  | "TOKENIZER"
  | "MEMORY"
  | "SAMPLE_FILE"
  | "ENVIRONMENT"
  | "ENDPOINT"
  | "DEVICE"
  | "DEVICE_LOST"
  | "NATIVE_ADDON"
  | "SHARED_MEMORY"
  | "CHECKPOINT"
  | "DISK"
  | "NOT_FINITE"
  | "PIPELINE"
  | "USAGE";

export interface ErrorDetail {
  /** File, config path, line or process where it was found. */
  where?: string;
  got?: unknown;
  expected?: string;
  /** What the user can do now. */
  hint?: string;
  cause?: unknown;
}

export class AgentRLError extends Error {
  readonly code: ErrorCode;
  readonly detail: ErrorDetail;

  constructor(code: ErrorCode, what: string, detail: ErrorDetail = {}) {
    const lines = [what];
    if (detail.where !== undefined) lines.push(`  where:    ${detail.where}`);
    if (detail.got !== undefined) lines.push(`  got:      ${show(detail.got)}`);
    if (detail.expected !== undefined) lines.push(`  expected: ${detail.expected}`);
    if (detail.hint !== undefined) lines.push(`  do:       ${detail.hint}`);
    super(lines.join("\n"), detail.cause === undefined ? undefined : { cause: detail.cause });
    this.name = "AgentRLError";
    this.code = code;
    this.detail = detail;
  }
}

/** An environment did not answer in time. */
export class EnvironmentTimeout extends AgentRLError {
  constructor(what: string, detail: ErrorDetail = {}) {
    super("ENVIRONMENT", what, detail);
  }
}

/** Where it was found and what was found there, for where an error is part of a sentence. */
export function briefly({ detail, message }: AgentRLError): string {
  return [detail.where, detail.got ?? message].filter((part) => part !== undefined).join(": ");
}

/** An error as a message to another process or thread. @param foreign code of what is no AgentRLError */
export function failure(error: unknown, foreign: ErrorCode | "" = ""): { message: string; code: string } {
  return {
    message: error instanceof Error ? error.message : String(error),
    code: error instanceof AgentRLError ? error.code : foreign,
  };
}

/** A message of several lines as one, for where it is part of another. */
export function oneLine(message: string): string {
  return message.replaceAll(/\n\s*/g, "; ").replaceAll(/: {2,}/g, ": ");
}

function show(value: unknown): string {
  const text = typeof value === "string" ? value : (JSON.stringify(value) ?? String(value));
  return text.length > 300 ? `${text.slice(0, 300)}… (${text.length} characters)` : text;
}
