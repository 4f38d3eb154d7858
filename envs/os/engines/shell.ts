/**
 * A bash that is started anew for every script and still seems to go on: its folder, variables and functions are written
 * down when a script ends, and read when the next begins. So a script that kills its shell, or never ends, ends only itself.
 */
import type { RunResult } from "../sandbox.ts";

/** Folder on the machine, where the state lies. */
const STATE = "/run/session";

const program = `
mkdir -p ${STATE} 2>/dev/null
if [ -f ${STATE}/variables ]; then . ${STATE}/variables 2>/dev/null; cd "$(<${STATE}/folder)" 2>/dev/null; fi
trap '__status=$?
{ pwd >${STATE}/folder
declare -p | grep -Ev "^declare -[a-zA-Z]*r|^declare -[-a-zA-Z]+ (BASH|DIRSTACK|FUNCNAME|PIPESTATUS|_=|__status|__script)" >${STATE}/variables
declare -f >>${STATE}/variables; } 2>/dev/null
exit $__status' EXIT
__script=$1
set --
eval "$__script"
`;

/** Command line that runs the script; `fresh`: in a shell that neither reads nor writes the state. */
export function shellCommand(script: string, fresh: boolean): string[] {
  return fresh ? ["bash", "-c", script] : ["bash", "-c", program, "bash", script];
}

/** What the machine is asked where a script seems not to have been run. */
const anyScript = shellCommand("exit 0", true);
/** Where a program that leads to the script is missing, or may not be run: by `timeout`, bash and the container runtimes. */
const NOT_RUN = [125, 126, 127];

/**
 * The result of a script; where it was not run since the machine has no shell any more, one that says so in place of what
 * the programs around the shell complain of. A script may end with the same status: so the machine is asked.
 */
export async function orShellGone(
  result: RunResult,
  execute: (command: string[]) => Promise<RunResult>,
): Promise<RunResult> {
  if (!NOT_RUN.includes(result.exitCode) || result.timedOut) return result;
  const { exitCode } = await execute(["timeout", "--signal=KILL", "5", ...anyScript]);
  if (!NOT_RUN.includes(exitCode)) return result;
  return { stdout: "", stderr: "", exitCode: result.exitCode, timedOut: false, cut: false, shellGone: true };
}
