/**
 * A product: the schema of WebShop's `items_shuffle*.json` and `items_ins_v2*.json` (princeton-nlp/WebShop), and the form
 * that the shop works with. The conversion follows the original's `load_products`.
 */
import { z } from "zod";
import { reprFloat } from "../../src/env/python-repr.ts";
import { Rng } from "../../src/env/rng.ts";

const text = z
  .string()
  .nullish()
  .transform((value) => value ?? "");

export const rawProductSchema = z.object({
  asin: z.string(),
  name: z.string(),
  category: text,
  query: text,
  product_category: text,
  full_description: text,
  small_description: z
    .union([z.array(z.string()), z.string()])
    .nullish()
    .transform((value) => value ?? ""),
  /** "$10.00", "$10.00 to $20.00", or nothing. */
  pricing: text,
  customization_options: z
    .union([z.record(z.string(), z.array(z.object({ value: z.string() })).nullable()), z.literal("")])
    .nullish()
    .transform((value) => value || {}),
});

export const rawAttributesSchema = z.object({
  attributes: z.array(z.string()).optional(),
  instruction: z.string().nullish(),
  instruction_attributes: z.array(z.string()).nullish(),
});

export type RawProduct = z.infer<typeof rawProductSchema>;

/** The contents of `items_shuffle*.json` and `items_ins_v2*.json`. */
export interface RawItems {
  products: RawProduct[];
  attributes: Record<string, { attributes: string[] }>;
}

export interface Product {
  asin: string;
  name: string;
  query: string;
  category: string;
  productCategory: string;
  attributes: string[];
  description: string;
  features: string[];
  /** As the pages show it, for example "$12.5" or "$10.0 to $20.0". */
  priceTag: string;
  /** What a purchase costs, in dollars. */
  price: number;
  /** Option name to its values, all lower case, in the page's order. */
  options: ReadonlyMap<string, readonly string[]>;
}

/** What a product without a price costs, in dollars. */
const DEFAULT_PRICE = 100;

/** An attribute list that matches no goal, for products without attributes. */
const NO_ATTRIBUTES = ["DUMMY_ATTR"];

export function toProduct(raw: RawProduct, attributes: readonly string[] | undefined): Product {
  const prices = parsePrices(raw.pricing);
  const options = new Map<string, readonly string[]>();
  for (const [name, contents] of Object.entries(raw.customization_options)) {
    if (contents === null) continue;
    options.set(
      name.toLowerCase(),
      contents.map(({ value }) => value.trim().replaceAll("/", " | ").toLowerCase()),
    );
  }
  return {
    asin: raw.asin,
    name: raw.name,
    query: raw.query.toLowerCase().trim(),
    category: raw.category,
    productCategory: raw.product_category,
    attributes: [...(attributes ?? NO_ATTRIBUTES)],
    description: raw.full_description,
    features: typeof raw.small_description === "string" ? [raw.small_description] : raw.small_description,
    priceTag: prices.map((price) => `$${reprFloat(price)}`).join(" to "),
    price: drawPrice(raw.asin, prices),
    options,
  };
}

/** One price, or the two ends of a range. */
function parsePrices(pricing: string): number[] {
  const prices = pricing
    .split("$")
    .slice(1, 3)
    .map((part) => Number.parseFloat(part.replace(/[^\d.]/g, "")))
    .filter((price) => !Number.isNaN(price));
  return prices.length === 0 ? [DEFAULT_PRICE] : prices;
}

/** The original draws a price out of a range whenever it starts; here the draw depends on the product alone. */
function drawPrice(asin: string, [low, high]: readonly number[]): number {
  if (high === undefined) return low!;
  return low! + (high - low!) * new Rng("webshop price", asin).next();
}
