/** Freebase's schema as AgentBench ships it: which type a relation leaves and leads to, and which relation is its inverse. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { reading } from "../../src/env/sample-file.ts";

export interface Role {
  relation: string;
  domain: string;
  range: string;
}

/** Ranges that hold values instead of entities. Numbers and dates are attributes; texts are neither. */
const NUMBERS = new Set(["type.int", "type.float", "type.datetime"]);
const LITERALS = new Set([
  ...NUMBERS,
  "type.text",
  "type.rawstring",
  "type.boolean",
  "type.uri",
  "type.key",
  "type.enumeration",
]);

export class Ontology {
  readonly #roles = new Map<string, Role>();
  /** By type (`film.film`) and by its first part (`film`). */
  readonly #byDomain = new Map<string, Role[]>();
  readonly #inverse = new Map<string, string>();

  /** Reads `fb_roles.gz` and `reverse_properties.gz`. */
  static read(folder: string): Ontology {
    const ontology = new Ontology();
    for (const line of readGzip(join(folder, "fb_roles.gz")).split("\n")) {
      const [domain, relation, range, more] = line.trim().split(/\s+/);
      // One published line is two lines run together; it says nothing certain.
      if (domain === undefined || relation === undefined || range === undefined || more !== undefined) continue;
      ontology.#addRole({ relation, domain, range });
    }
    for (const line of readGzip(join(folder, "reverse_properties.gz")).split("\n")) {
      const [relation, inverse] = line.trim().split("\t");
      if (relation !== undefined && inverse !== undefined) ontology.#inverse.set(relation, inverse);
    }
    return ontology;
  }

  #addRole(role: Role): void {
    this.#roles.set(role.relation, role);
    for (const domain of [role.domain, firstPart(role.domain)]) {
      const siblings = this.#byDomain.get(domain);
      if (siblings === undefined) this.#byDomain.set(domain, [role]);
      else siblings.push(role);
    }
  }

  /** A relation's role; for an unknown one the type that its name says it leaves, and the most general range. */
  role(relation: string): Role {
    return (
      this.#roles.get(relation) ?? {
        relation,
        domain: relation.split(".").slice(0, -1).join("."),
        range: "common.topic",
      }
    );
  }

  inverse(relation: string): string | undefined {
    return this.#inverse.get(relation);
  }

  /** Relations that leave a type and lead to entities. */
  relationsOf(type: string): Role[] {
    return (this.#byDomain.get(type) ?? []).filter((role) => !LITERALS.has(role.range));
  }

  /** Other relations of the same type that lead to entities. */
  relationsLike(relation: string): Role[] {
    return this.#others(this.role(relation).domain, relation).filter((role) => !LITERALS.has(role.range));
  }

  /** Other relations of the same first part (`film`): a wider field where a type has few relations of its own. */
  relationsAround(relation: string): Role[] {
    return this.#others(firstPart(this.role(relation).domain), relation).filter((role) => !LITERALS.has(role.range));
  }

  /** Other numerical attributes of the same type. */
  attributesLike(attribute: string): Role[] {
    return this.#others(this.role(attribute).domain, attribute).filter((role) => NUMBERS.has(role.range));
  }

  #others(domain: string, relation: string): Role[] {
    return (this.#byDomain.get(domain) ?? []).filter((role) => role.relation !== relation);
  }
}

function firstPart(domain: string): string {
  return domain.split(".")[0]!;
}

function readGzip(path: string): string {
  return reading(path, () => gunzipSync(readFileSync(path)).toString("utf8"), {
    what: "an ontology file",
    expected: "a gzip file as AgentBench's knowledge graph task has it",
    hint: "fetch the ontology folder again, or remove it: the graphs then have fewer relations",
  });
}
