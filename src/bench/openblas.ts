/**
 * Opens OpenBLAS so that it runs as fast as it can on this machine. Releases older than a processor do not know it and
 * fall back to kernels of 2004 (0.3.21 takes Emerald Rapids for a Prescott: a fifth of the speed); a comparison with that
 * would flatter us. Where that happens, the kernels for this instruction set are named to it.
 */
import { spawnSync } from "node:child_process";
import { addon, addonPath } from "../device/addon.ts";

export interface OpenBlas {
  /** Its own words: version and the kernels in use. */
  description: string;
  /** What a reader must know of how it was configured; empty when it chose everything by itself. */
  notes: string[];
}

export const OPENBLAS_HINT =
  "OpenBLAS is not installed, so there is nothing to compare with (Debian: apt-get install libopenblas0-pthread)";

// Kernels without AVX2, as openblas_get_config names them.
const OLD_KERNELS = /\b(Prescott|Core2|Penryn|Dunnington|Nehalem|Atom|Sandybridge|Barcelona|Bobcat|Generic)\b/i;
const KERNELS_FOR: Record<string, string> = { avx512: "SkylakeX", avx2: "Haswell" };

/** Must come before anything else opens OpenBLAS in this process. Null where there is none. */
export function openOpenBlas(): OpenBlas | null {
  const notes: string[] = [];
  // Its idle threads spin for tens of milliseconds by default, into the other side's turn; 2^20 cycles are enough to
  // bridge the gap between two calls.
  process.env.OPENBLAS_THREAD_TIMEOUT ??= "20";
  if (process.env.OPENBLAS_CORETYPE) {
    notes.push(`OPENBLAS_CORETYPE is set to ${process.env.OPENBLAS_CORETYPE}: OpenBLAS may be slower than it could be`);
  } else {
    const alone = describeInChild();
    const kernels = KERNELS_FOR[addon.simdLevels()[0] ?? ""];
    if (OLD_KERNELS.test(alone) && kernels !== undefined) {
      process.env.OPENBLAS_CORETYPE = kernels;
      notes.push(
        `OpenBLAS does not know this processor (it chose: ${alone}); it was told to use its ${kernels} kernels`,
      );
    }
  }
  const description = addon.openblasDescription();
  return description === null ? null : { description, notes };
}

/** What OpenBLAS chooses by itself; it chooses once per process, so another process must ask. */
function describeInChild(): string {
  const program = `process.stdout.write(require(${JSON.stringify(addonPath)}).openblasDescription() ?? "")`;
  return spawnSync(process.execPath, ["-e", program], { encoding: "utf8", timeout: 20_000 }).stdout ?? "";
}
