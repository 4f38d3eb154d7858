/**
 * GPT-2's byte alphabet: each byte has a printable character, so that byte-level BPE can be written as strings. Bytes
 * that are printable in Latin-1 stand for themselves, the others for U+0100 and up
 * (https://github.com/openai/gpt-2/blob/master/src/encoder.py, bytes_to_unicode).
 */

function makeAlphabet(): string[] {
  const printable = (byte: number) => (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) => String.fromCodePoint(printable(byte) ? byte : next++));
}

/** Character of each byte. */
export const byteAlphabet: readonly string[] = makeAlphabet();

const byteOf = new Map(byteAlphabet.map((character, byte) => [character, byte]));

/** The token string of `text`'s UTF-8 bytes. */
export function toByteLevel(text: string): string {
  return Array.from(new TextEncoder().encode(text), (byte) => byteAlphabet[byte]!).join("");
}

/** The bytes of a token string; undefined when it holds a character that stands for no byte. */
export function fromByteLevel(token: string): Uint8Array | undefined {
  const bytes: number[] = [];
  for (const character of token) {
    const byte = byteOf.get(character);
    if (byte === undefined) return undefined;
    bytes.push(byte);
  }
  return Uint8Array.from(bytes);
}
