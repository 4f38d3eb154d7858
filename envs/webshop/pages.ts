/**
 * The pages as text, in two forms. `fullPage` gives the original's text mode: every visible string of the page, joined by
 * " [SEP] ", and the available actions as Python prints them. `briefPage` gives a few words a line, for very small models:
 * no instruction (the first message has it), no navigation that is not needed to buy.
 */
import { reprFloat, reprString } from "../../src/env/python-repr.ts";
import type { Product } from "./product.ts";
import type { Visit } from "./visit.ts";

/** `reward` is shown on the last page. */
export function fullPage(visit: Visit, instruction: string, reward = 0): string {
  const { page } = visit;
  if (page === "done") return join(donePage(visit, reward));
  if (page === "search") return join(["WebShop", "Instruction:", instruction, "Search"]);
  return join(["Instruction:", instruction, "Back to Search", ...innerPage(visit)]);
}

function innerPage(visit: Visit): string[] {
  const product = visit.product!;
  switch (visit.page) {
    case "results":
      return [
        `Page ${visit.number} (Total results: ${visit.hits.length})`,
        ...(visit.number > 1 ? ["< Prev"] : []),
        ...(visit.hasNext ? ["Next >"] : []),
        ...visit.shown.flatMap(({ asin, name, priceTag }) => [asin, name, priceTag]),
      ];
    case "item":
      return [
        "< Prev",
        ...[...product.options].flatMap(([name, values]) => [name, ...values]),
        product.name,
        `Price: ${product.priceTag}`,
        "Rating: N.A.",
        ...["Description", "Features", "Reviews", "Buy Now"],
      ];
    default:
      return ["< Prev", ...subPage(visit)];
  }
}

/** Reviews are not part of the catalogue; the original's page is empty without them. */
function subPage({ page, product }: Visit): readonly string[] {
  if (page === "description") return [product!.description];
  return page === "features" ? product!.features : [];
}

function donePage({ product, chosen }: Visit, reward: number): string[] {
  const empty = (...titles: string[]) => titles.flatMap((title) => [title, "None"]);
  return [
    "Thank you for shopping with us!",
    ...empty("Your code:"),
    "(Paste it in your MTurk interface.)",
    "Purchased",
    ...["asin", product!.asin, "options", optionsJson(chosen)],
    ...empty("attrs", "category", "query", "product category"),
    ...[
      "Target",
      "asin",
      "options",
      "attrs",
      "price upper",
      "instuction text",
      "category",
      "product category",
      "query",
    ],
    ...empty("Goal"),
    ...["Reward", "Your score (min 0.0, max 1.0)", reprFloat(reward)],
    ...empty("Reward Details"),
  ];
}

/** Python's json.dumps with sorted keys, as Jinja's tojson writes it into HTML. */
function optionsJson(options: ReadonlyMap<string, string>): string {
  const sorted = [...options].sort(([a], [b]) => (a < b ? -1 : 1));
  const text = sorted.map(([name, value]) => `${JSON.stringify(name)}: ${JSON.stringify(value)}`).join(", ");
  return `{${text}}`.replace(
    /[<>&'\u007f-\uffff]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

function join(texts: readonly string[]): string {
  return texts
    .map((text) => text.trim())
    .filter((text) => text !== "")
    .join(" [SEP] ");
}

/** `{'has_search_bar': False, 'clickables': ['back to search', …]}`. */
export function availableActions({ page, clickables }: Visit): string {
  const bar = page === "search" ? "True" : "False";
  return `{'has_search_bar': ${bar}, 'clickables': [${clickables.map(reprString).join(", ")}]}`;
}

/** Longer titles are cut in brief pages; in characters. */
const BRIEF_TITLE = 60;
const BRIEF_TEXT = 300;

export function briefPage(visit: Visit, reward = 0): string {
  switch (visit.page) {
    case "search":
      return "search";
    case "done":
      return `score ${Number(reward.toFixed(2))}`;
    case "results":
      return briefResults(visit);
    case "item":
      return briefItem(visit);
    default:
      return `${subPage(visit).join("\n").slice(0, BRIEF_TEXT)}\n< prev`;
  }
}

function briefResults({ shown, number, hasNext }: Visit): string {
  if (shown.length === 0) return "no results";
  const lines = shown.map((product) => `${product.asin.toLowerCase()} ${briefTitle(product)}`);
  const buttons = [...(number > 1 ? ["< prev"] : []), ...(hasNext ? ["next >"] : [])];
  return [...lines, ...(buttons.length === 0 ? [] : [buttons.join(", ")])].join("\n");
}

function briefItem({ product, chosen }: Visit): string {
  const options = [...product!.options].map(([name, values]) => {
    const marked = values.map((value) => (chosen.get(name) === value ? `${value}*` : value));
    return `${name}: ${marked.join(", ")}`;
  });
  return [briefTitle(product!), ...options, "buy now, < prev"].join("\n");
}

function briefTitle({ name, priceTag }: Product): string {
  return `${name.toLowerCase().slice(0, BRIEF_TITLE).trim()} ${priceTag.replaceAll(/\.0\b/g, "")}`;
}
