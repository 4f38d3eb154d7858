/**
 * Where a session's scripts run: one machine of its own, whose files, working folder and variables last from one script to
 * the next. Engines differ in how real the machine is (engines/); the task does not see which it has.
 */

export interface RunOptions {
  /** Wall-clock time of the script, in milliseconds. */
  timeoutMs: number;
  /** Bytes kept of the output; what is printed beyond is thrown away. */
  outputBytes: number;
  /** In a shell of its own, in root's home: it neither sees nor changes the session's folder and variables. */
  fresh?: boolean;
}

export interface RunResult {
  /** What the script printed, as far as it was kept. */
  stdout: string;
  stderr: string;
  exitCode: number;
  /** The script was stopped at the time limit. */
  timedOut: boolean;
  /** Output was thrown away at the output limit. */
  cut: boolean;
  /** The script was not run: earlier ones have removed the machine's shell, or what it needs. */
  shellGone?: true;
}

export interface Sandbox {
  /** Runs a bash script as root. A script that fails is a result; a rejection is a fault of the machine. */
  run(script: string, options: RunOptions): Promise<RunResult>;
  /** Frees the machine and stops what still runs on it; safe to call twice. */
  close(): Promise<void>;
}

/** Starts a machine for one session. */
export interface SandboxEngine {
  start(): Promise<Sandbox>;
  close(): Promise<void>;
}

/** What every machine gives a script to begin with. */
export const initialEnvironment = {
  HOME: "/root",
  USER: "root",
  LOGNAME: "root",
  SHELL: "/bin/bash",
  LANG: "C.UTF-8",
  PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
} as const;
