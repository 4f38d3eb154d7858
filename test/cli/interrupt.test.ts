import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

const module = JSON.stringify(fileURLToPath(new URL("../../src/cli/interrupt.ts", import.meta.url)));

/** Work that says what it sees: "ready", then "asked" at the first signal; ends by itself when `obedient`. */
function start(obedient: boolean) {
  const program = `
    import { interruptible } from ${module};
    const keepAlive = setInterval(() => {}, 1000);
    await interruptible((signal) => new Promise((resolve) => {
      signal.addEventListener("abort", () => { console.log("asked"); if (${obedient}) resolve(); });
      console.log("ready");
    }));
    clearInterval(keepAlive);
    console.log("ended well");`;
  const child = spawn(process.execPath, ["--import", "tsx", "--input-type=module", "-e", program]);
  let said = "";
  const waiting: { text: string; resolve: () => void }[] = [];
  child.stdout.on("data", (text) => {
    said += text;
    for (const wait of waiting) if (said.includes(wait.text)) wait.resolve();
  });
  const hears = (text: string) => new Promise<void>((resolve) => waiting.push({ text, resolve }));
  return { child, hears, ended: once(child, "close"), said: () => said };
}

describe.skipIf(process.platform === "win32")("Ctrl-C", () => {
  it.each(["SIGINT", "SIGTERM", "SIGHUP"] as const)("%s once asks the work to end well", async (signal) => {
    const { child, hears, ended, said } = start(true);
    await hears("ready");
    child.kill(signal);
    const [code] = await ended;
    expect(code).toBe(0);
    expect(said()).toContain("ended well");
  });

  it("twice ends the process", async () => {
    const { child, hears, ended, said } = start(false);
    await hears("ready");
    child.kill("SIGINT");
    await hears("asked");
    child.kill("SIGINT");
    const [code] = await ended;
    expect(code).toBe(130);
    expect(said()).not.toContain("ended well");
  });
});
