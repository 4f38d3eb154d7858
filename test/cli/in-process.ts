/** A command line in this process: what a case of its own process would show, without the second that one takes to start. */
import { vi } from "vitest";
import { main } from "../../src/cli/program.ts";

export interface Result {
  code: number;
  stdout: string;
  stderr: string;
}

export async function inProcess(...args: string[]): Promise<Result> {
  const result = { code: 0, stdout: "", stderr: "" };
  const into = (stream: "stdout" | "stderr", end: string) => (text: unknown) => {
    result[stream] += `${String(text)}${end}`;
    return true;
  };
  const spies = [
    vi.spyOn(process.stdout, "write").mockImplementation(into("stdout", "")),
    vi.spyOn(process.stderr, "write").mockImplementation(into("stderr", "")),
    vi.spyOn(console, "log").mockImplementation(into("stdout", "\n")),
    vi.spyOn(console, "error").mockImplementation(into("stderr", "\n")),
  ];
  try {
    result.code = await main(args);
    return result;
  } finally {
    for (const spy of spies) spy.mockRestore();
  }
}
