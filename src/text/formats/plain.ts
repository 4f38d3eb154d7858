/** `plain`: no calls at all. How a turn is read where its reader has offered no tools: whatever it says is text. */
import type { ToolFormat } from "./format.ts";

export const plain: Pick<ToolFormat, "grammar"> = {
  grammar: () => ({
    lineFeeds: 0,
    open: () => undefined,
    held: () => 0,
    closers: /(?!)/,
    read: () => undefined,
    attempted: () => false,
  }),
};
