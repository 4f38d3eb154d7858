/** A child process that ends while one of its own still has its stderr. */
import { spawn } from "node:child_process";

process.once("message", () => {
  const sleeper = spawn("sleep", ["600"], { stdio: ["ignore", "ignore", "inherit"], detached: true });
  process.send!({ sleeper: sleeper.pid });
  process.stderr.write("the last line\n", () => process.exit(7));
});
