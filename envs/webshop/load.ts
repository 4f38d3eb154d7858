/**
 * The original files, in one folder: `items_shuffle*.json` (products), `items_ins_v2*.json` (their attributes) and
 * `items_human_ins.json` (what people asked for). Without the last, goals are made of the second, as in the original.
 */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { Rng } from "../../src/env/rng.ts";
import { reading } from "../../src/env/sample-file.ts";
import { AgentRLError } from "../../src/errors.ts";
import { Catalogue } from "./catalogue.ts";
import { type HumanInstruction, humanGoal, humanInstructionSchema, syntheticGoals } from "./goals.ts";
import { jsonMembers } from "./json-stream.ts";
import { type Product, rawAttributesSchema, rawProductSchema, toProduct } from "./product.ts";
import { pythonShuffle } from "./python-random.ts";
import type { Goal, WebshopTask } from "./task.ts";

/** The original shuffles its goals with this seed. */
const GOAL_SEED = 233;

const HUMAN_FILE = "items_human_ins.json";

type Attributes = z.infer<typeof rawAttributesSchema>;

/** Reads the folder; `limit`: only the first so many products. Throws SAMPLE_FILE. */
export function loadShop(folder: string, limit?: number): { catalogue: Catalogue; tasks: WebshopTask[] } {
  const files = findFiles(folder);
  const attributes = readObject(files.attributes, rawAttributesSchema);
  const human = files.human === undefined ? undefined : readObject(files.human, z.array(humanInstructionSchema));
  const catalogue = new Catalogue();
  for (const product of readProducts(files.products, attributes, limit)) catalogue.add(product);
  const goals = catalogue.products.flatMap((product) => [...goalsOf(product, attributes, human)]);
  if (goals.length === 0) {
    throw new AgentRLError("SAMPLE_FILE", "no product of the catalogue has an instruction", {
      where: folder,
      got: `${catalogue.products.length} products`,
      expected: `instructions for them in ${HUMAN_FILE} or items_ins_v2*.json`,
      hint: "the files must belong together; with settings.products, allow more products",
    });
  }
  return { catalogue, tasks: pythonShuffle(goals, GOAL_SEED).map((goal) => ({ level: 0, goal })) };
}

function* goalsOf(
  product: Product,
  attributes: ReadonlyMap<string, Attributes>,
  human: ReadonlyMap<string, HumanInstruction[]> | undefined,
): Generator<Goal> {
  const rng = new Rng("webshop goal", product.asin);
  if (human !== undefined) {
    for (const instruction of human.get(product.asin) ?? []) {
      const goal = humanGoal(product, instruction, rng);
      if (goal !== undefined) yield goal;
    }
    return;
  }
  const { instruction, instruction_attributes: wanted } = attributes.get(product.asin) ?? {};
  if (instruction && wanted && wanted.length > 0) {
    yield* syntheticGoals(product, { instruction, attributes: wanted }, rng);
  }
}

function* readProducts(
  path: string,
  attributes: ReadonlyMap<string, Attributes>,
  limit: number | undefined,
): Generator<Product> {
  for (const { value, index } of jsonMembers(path)) {
    const raw = check(value, rawProductSchema, `${path}, entry ${index} (counted from 0)`);
    // As in the original: products without an ASIN, or with a malformed one, are left out.
    const known = raw.asin !== "nan" && raw.asin.length <= 10;
    if (known) yield toProduct(raw, attributes.get(raw.asin)?.attributes);
    if (index + 1 === limit) return;
  }
}

function readObject<S extends z.ZodType>(path: string, schema: S): Map<string, z.infer<S>> {
  const entries = new Map<string, z.infer<S>>();
  for (const { key, value, index } of jsonMembers(path)) {
    if (key === undefined) {
      throw new AgentRLError("SAMPLE_FILE", "the file must be an object with a member for each ASIN", {
        where: path,
        got: "an array",
        expected: '{"B0…": …}',
        hint: "take the files as WebShop publishes them",
      });
    }
    entries.set(key, check(value, schema, `${path}, entry ${index} (counted from 0), ${key}`));
  }
  return entries;
}

function check<S extends z.ZodType>(value: unknown, schema: S, where: string): z.infer<S> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0]!;
  throw new AgentRLError(
    "SAMPLE_FILE",
    `field ${issue.path.map(String).join(".") || "(the entry itself)"}: ${issue.message}`,
    {
      where,
      got: value,
      expected: "WebShop's own schema",
      hint: "correct or remove this entry, or take the files as WebShop publishes them",
    },
  );
}

/** A full catalogue goes before its excerpts (`items_shuffle_1000.json`). */
function findFiles(folder: string): { products: string; attributes: string; human: string | undefined } {
  const names = listFolder(folder);
  const pick = (stem: string, suffix?: string): string => {
    const found = names
      .filter((name) => name.startsWith(stem) && name.endsWith(".json"))
      .sort((a, b) => a.length - b.length);
    const name = found.find((candidate) => candidate === `${stem}${suffix}.json`) ?? found[0];
    if (name !== undefined) return name;
    throw new AgentRLError("SAMPLE_FILE", `the folder has no ${stem}*.json`, {
      where: folder,
      got: names.slice(0, 10).join(", ") || "an empty folder",
      expected: `items_shuffle*.json, items_ins_v2*.json and, for human goals, ${HUMAN_FILE}`,
      hint: "give the folder that WebShop's setup fills with its data",
    });
  };
  const products = pick("items_shuffle");
  const suffix = products.slice("items_shuffle".length, -".json".length);
  const attributes = pick("items_ins_v2", suffix);
  return {
    products: join(folder, products),
    attributes: join(folder, attributes),
    human: names.includes(HUMAN_FILE) ? join(folder, HUMAN_FILE) : undefined,
  };
}

function listFolder(folder: string): string[] {
  return reading(folder, () => readdirSync(folder), {
    what: "the folder of the catalogue",
    expected: "a folder with items_shuffle*.json and items_ins_v2*.json",
    hint: "give the folder, not one of its files",
  });
}
