/** A refusal as OpenAI's API words it: `{"error": {message, type, param, code}}`. */
import { WireError } from "../env/wire/wire-error.ts";
import { AgentRLError, oneLine } from "../errors.ts";

export interface ApiErrorDetail {
  /** Place in the request's body, as in `messages.0.content`. */
  param?: string;
  code?: string;
  /** Seconds after which another try makes sense. */
  retryAfter?: number;
}

export class ApiError extends Error {
  readonly status: number;
  readonly detail: ApiErrorDetail;

  constructor(status: number, message: string, detail: ApiErrorDetail = {}) {
    super(message);
    this.name = "ApiError";
    this.status = status;
    this.detail = detail;
  }

  get body() {
    const { param = null, code = null } = this.detail;
    return { error: { message: this.message, type: typeOf(this.status), param, code } };
  }
}

/** A request's body that cannot be carried out. */
export function refused(param: string, message: string, code = "unsupported_value"): ApiError {
  return new ApiError(400, `${param}: ${message}`, { param, code });
}

export function asApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  if (error instanceof WireError) {
    const code = error.status === 401 ? "invalid_api_key" : error.code;
    return new ApiError(error.status, error.message, { code });
  }
  const message = error instanceof Error ? error.message : String(error);
  return new ApiError(500, error instanceof AgentRLError ? oneLine(message) : message, { code: "internal" });
}

function typeOf(status: number): string {
  if (status === 401) return "authentication_error";
  if (status === 404) return "not_found_error";
  if (status === 503) return "overloaded_error";
  return status < 500 ? "invalid_request_error" : "server_error";
}
