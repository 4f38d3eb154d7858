/**
 * Text of a model or an environment for a terminal: what would move the cursor, change colours, rename the window or turn
 * the direction of writing is shown instead of done. Line feeds and tabs stay.
 */
export function plainText(text: string): string {
  return text.replace(unsafe, (character) => {
    const code = character.codePointAt(0)!;
    if (code < 0x20) return String.fromCodePoint(0x2400 + code);
    if (code === 0x7f) return "␡";
    return `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
}

/** The same within a line. */
export function plainLine(text: string): string {
  return plainText(text).replaceAll("\n", "↵").replaceAll("\t", "⇥");
}

/** Control characters (C0, C1), and those that turn or hide text (Unicode's bidirectional controls, line separators). */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it is about.
const unsafe = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;
