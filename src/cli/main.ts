/** The process of the command line. */
import { main } from "./program.ts";

// `agentrl … | head` closes the pipe early: that is not an error of ours.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE") throw error;
  process.exit(0);
});
process.exitCode = await main(process.argv.slice(2));
