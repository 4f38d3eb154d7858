/** A download as one line of a terminal that is written over; nothing where the output is no terminal. */

export interface DownloadProgress {
  /** @param earlier They were there already, and say nothing about the speed. */
  add(bytes: number, earlier?: boolean): void;
  end(): void;
}

const intervalMs = 100;
const barWidth = 24;

export function downloadProgress(
  label: string,
  total: number,
  out: { write(text: string): unknown; isTTY?: boolean; columns?: number } = process.stderr,
  now: () => number = () => performance.now(),
): DownloadProgress {
  if (out.isTTY !== true) return { add: () => {}, end: () => {} };
  const started = now();
  let done = 0;
  let found = 0;
  let drawn = Number.NEGATIVE_INFINITY;
  const draw = (at: number) => {
    drawn = at;
    const share = total === 0 ? 1 : Math.min(1, done / total);
    const filled = Math.round(share * barWidth);
    const bar = "#".repeat(filled) + "-".repeat(barWidth - filled);
    const speed = at > started ? (1000 * (done - found)) / (at - started) : 0;
    const line = `${label}  [${bar}] ${Math.floor(100 * share)} %  ${mb(done)} of ${mb(total)} MB  ${mb(speed)} MB/s`;
    // Cleared to its end: the line before may have been longer.
    out.write(`\r${line.slice(0, (out.columns ?? 80) - 1)}\x1b[K`);
  };
  return {
    add(bytes, earlier = false) {
      if (earlier) found += bytes;
      done += bytes;
      if (now() - drawn >= intervalMs) draw(now());
    },
    end() {
      draw(now());
      out.write("\n");
    },
  };
}

function mb(bytes: number): string {
  return (bytes / 1e6).toFixed(1);
}
