/** For `node --import`: a process that runs users' files of its own accord finds `agentrl` and `zod` from them. */
import { installModuleHooks } from "./module-hooks.ts";

await installModuleHooks();
