/**
 * Graded KG tasks of our own: level 1 is one hop, 2 two hops, 3 the intersection of two hops, 4 a count, 5 the largest or
 * smallest. Each task has a small typed graph of its own with names as in Freebase (film.director.film) and inverse
 * relations. A topic has three to six relations, of which only the question tells the right one, and answers are computed
 * by the index itself. A pure function of (split, index).
 */
import { Rng } from "../../src/env/rng.ts";
import { people, places, titles } from "../words.ts";
import { evaluate, type Triple, TripleIndex } from "./graph.ts";
import { programsOf } from "./program.ts";
import type { KgAction, KgTask } from "./task.ts";

/** A domain has one hub type; people and a place hang on it by role, and it has two numerical attributes. */
const domains: readonly {
  domain: string;
  hub: string;
  roles: [string, string];
  place: string;
  attributes: [string, string];
}[] = [
  { domain: "film", hub: "film", roles: ["director", "actor"], place: "country", attributes: ["length", "budget"] },
  { domain: "book", hub: "book", roles: ["author", "editor"], place: "city", attributes: ["pages", "price"] },
  { domain: "music", hub: "song", roles: ["singer", "writer"], place: "studio", attributes: ["length", "sales"] },
  { domain: "sports", hub: "team", roles: ["coach", "player"], place: "city", attributes: ["wins", "points"] },
  { domain: "art", hub: "painting", roles: ["painter", "owner"], place: "museum", attributes: ["price", "height"] },
  { domain: "food", hub: "dish", roles: ["cook", "farmer"], place: "region", attributes: ["price", "weight"] },
  { domain: "games", hub: "game", roles: ["designer", "tester"], place: "country", attributes: ["sales", "rating"] },
  { domain: "travel", hub: "ship", roles: ["captain", "guide"], place: "port", attributes: ["speed", "length"] },
];

type Domain = (typeof domains)[number];
type World = Pick<KgTask, "triples" | "attributes" | "ranges">;
/** A hub's property: to the property's holder, and back from it. */
interface Edge {
  hub: string;
  role: string;
  holder: string;
}

const toHolder = ({ domain, hub }: Domain, role: string) => `${domain}.${hub}.${role}`;
const toHub = ({ domain, hub }: Domain, role: string) => `${domain}.${role}.${hub}`;

export function generateTask(split: string, index: number, attempt = 0): KgTask {
  const rng = new Rng("kg", split, index, attempt);
  const level = 1 + (index % 5);
  // A draw where a wrong path would also give the right set is thrown away whole.
  for (let draw = 0; draw < 1000; draw++) {
    const task = drawTask(rng, level);
    if (task !== undefined) return task;
  }
  throw new Error(`no task of level ${level} for ${split} ${index}`);
}

function drawTask(rng: Rng, level: number): KgTask | undefined {
  const [domain, ...others] = rng.sample(domains, 3) as [Domain, Domain, Domain];
  const { world, edges } = drawWorld(rng, domain, others);
  const relations = relationCounts(world.triples);
  const isTopic = (id: string) => isBetween(relations.get(id)!, 3, 6);
  if (!edges.some(({ holder }) => isTopic(holder))) return undefined;
  const made = makers[level - 1]!(
    rng,
    domain,
    edges.filter(({ hub, holder }) => isTopic(hub) && isTopic(holder)),
  );
  if (made === undefined) return undefined;
  const graph = indexOf(world);
  const answer = answerOf(graph, made.actions);
  if (answer.length === 0) return undefined;
  if (made.rivals.some((rival) => sameSet(answerOf(graph, rival), answer))) return undefined;
  const entities = Object.fromEntries(made.topics.map((topic) => [topic, topic]));
  return { level, question: made.question, entities, ...world, actions: made.actions, answer };
}

function drawWorld(rng: Rng, main: Domain, others: Domain[]): { world: World; edges: Edge[] } {
  const names = rng.sample(titles, 9);
  const crowd = rng.sample(people, 5);
  const towns = rng.sample(places, 3);
  const triples: Triple[] = [];
  const attributes: KgTask["attributes"] = [];
  const ranges: Record<string, string> = {};
  const edges: Edge[] = [];
  for (const [domain, count] of [[main, 5], ...others.map((other) => [other, 2])] as [Domain, number][]) {
    for (const role of [...domain.roles, domain.place]) {
      ranges[toHolder(domain, role)] = `${domain.domain}.${role}`;
      ranges[toHub(domain, role)] = `${domain.domain}.${domain.hub}`;
    }
    for (const hub of names.splice(0, count)) {
      for (const role of [...domain.roles, domain.place]) {
        const holder = rng.pick(role === domain.place ? towns : crowd);
        triples.push([hub, toHolder(domain, role), holder], [holder, toHub(domain, role), hub]);
        if (domain === main) edges.push({ hub, role, holder });
      }
      for (const attribute of domain.attributes) {
        attributes.push([hub, toHolder(domain, attribute), rng.between(1, 99)]);
      }
    }
  }
  return { world: { triples: rng.shuffle(triples), attributes, ranges }, edges };
}

/** How many relations leave each entity. */
function relationCounts(triples: readonly Triple[]): Map<string, number> {
  const pairs = new Set(triples.map(([subject, relation]) => `${subject}\t${relation}`));
  const counts = new Map<string, number>();
  for (const pair of pairs) {
    const subject = pair.slice(0, pair.indexOf("\t"));
    counts.set(subject, (counts.get(subject) ?? 0) + 1);
  }
  return counts;
}

interface Made {
  question: string;
  topics: string[];
  actions: KgAction[];
  /** Wrong sequences of calls that lie near: none may give the answer. */
  rivals: KgAction[][];
}
type Maker = (rng: Rng, domain: Domain, edges: Edge[]) => Made | undefined;

const makers: readonly Maker[] = [oneHop, twoHops, intersect, count, superlative];

/** The calls that find the hubs which have `holder` in `role`; they make one variable. */
function hubsBy(domain: Domain, role: string, holder: string): KgAction[] {
  return [
    ["get_relations", holder],
    ["get_neighbors", holder, toHub(domain, role)],
  ];
}

/** The domain's other role for people, that a question about this one may be mixed up with. */
function sibling(domain: Domain, role: string): string | undefined {
  return domain.roles.find((other) => other !== role && domain.roles.includes(role));
}

function rivalHubs(domain: Domain, role: string, holder: string, tail: KgAction[] = []): KgAction[][] {
  const other = sibling(domain, role);
  return other === undefined ? [] : [[...hubsBy(domain, other, holder), ...tail]];
}

function oneHop(rng: Rng, domain: Domain, edges: Edge[]): Made {
  const { hub, role, holder } = rng.pick(edges);
  if (rng.int(2) === 0) {
    return {
      question: rng.pick([
        `Which ${domain.hub} has the ${role} '${holder}'?`,
        `Find the ${domain.hub} with the ${role} '${holder}'.`,
      ]),
      topics: [holder],
      actions: hubsBy(domain, role, holder),
      rivals: rivalHubs(domain, role, holder),
    };
  }
  const path = (name: string): KgAction[] => [
    ["get_relations", hub],
    ["get_neighbors", hub, toHolder(domain, name)],
  ];
  const other = sibling(domain, role);
  return {
    question: rng.pick([
      `What is the ${role} of the ${domain.hub} '${hub}'?`,
      `Find the ${role} of the ${domain.hub} '${hub}'.`,
    ]),
    topics: [hub],
    actions: path(role),
    rivals: other === undefined ? [] : [path(other)],
  };
}

function twoHops(rng: Rng, domain: Domain, edges: Edge[]): Made {
  const { role, holder } = rng.pick(edges);
  const wanted = rng.pick([...domain.roles, domain.place].filter((other) => other !== role));
  const next = (name: string): KgAction[] => [
    ["get_relations", "#0"],
    ["get_neighbors", "#0", toHolder(domain, name)],
  ];
  const other = sibling(domain, wanted);
  return {
    question: rng.pick([
      `What is the ${wanted} of the ${domain.hub} with the ${role} '${holder}'?`,
      `Find the ${wanted} of the ${domain.hub} that has the ${role} '${holder}'.`,
    ]),
    topics: [holder],
    actions: [...hubsBy(domain, role, holder), ...next(wanted)],
    rivals: [
      ...rivalHubs(domain, role, holder, next(wanted)),
      ...(other === undefined ? [] : [[...hubsBy(domain, role, holder), ...next(other)]]),
    ],
  };
}

function intersect(rng: Rng, domain: Domain, edges: Edge[]): Made | undefined {
  const { hub } = rng.pick(edges);
  const [first, second] = rng.sample(
    edges.filter((edge) => edge.hub === hub),
    2,
  );
  if (first === undefined || second === undefined || first.holder === second.holder) return undefined;
  const [one, two] = [hubsBy(domain, first.role, first.holder), hubsBy(domain, second.role, second.holder)];
  return {
    question: rng.pick([
      `Which ${domain.hub} has the ${first.role} '${first.holder}' and the ${second.role} '${second.holder}'?`,
      `Find the ${domain.hub} with the ${first.role} '${first.holder}' and the ${second.role} '${second.holder}'.`,
    ]),
    topics: [first.holder, second.holder],
    actions: [...one, ...two, ["intersection", "#0", "#1"]],
    // Both sides are needed.
    rivals: [one, two],
  };
}

function count(rng: Rng, domain: Domain, edges: Edge[]): Made | undefined {
  const { role, holder } = rng.pick(edges);
  // One is what most wrong paths count.
  if (edges.filter((edge) => edge.role === role && edge.holder === holder).length < 2) return undefined;
  return {
    question: rng.pick([
      `How many ${domain.hub} entries have the ${role} '${holder}'?`,
      `Count the ${domain.hub} entries with the ${role} '${holder}'.`,
    ]),
    topics: [holder],
    actions: [...hubsBy(domain, role, holder), ["count", "#0"]],
    rivals: rivalHubs(domain, role, holder, [["count", "#0"]]),
  };
}

function superlative(rng: Rng, domain: Domain, edges: Edge[]): Made {
  const { role, holder } = rng.pick(edges);
  const highest = rng.int(2) === 0;
  const [attribute, other] = rng.shuffle(domain.attributes) as [string, string];
  const hubs = hubsBy(domain, role, holder);
  const pick = (tool: string, name: string): KgAction[] => [
    ...hubs,
    ["get_attributes", "#0"],
    [tool, "#0", toHolder(domain, name)],
  ];
  const [tool, opposite] = highest ? ["argmax", "argmin"] : ["argmin", "argmax"];
  const word = highest ? rng.pick(["highest", "largest"]) : rng.pick(["lowest", "smallest"]);
  return {
    question: rng.pick([
      `Which ${domain.hub} with the ${role} '${holder}' has the ${word} ${attribute}?`,
      `Find the ${domain.hub} with the ${word} ${attribute} that has the ${role} '${holder}'.`,
    ]),
    topics: [holder],
    actions: pick(tool!, attribute),
    rivals: [hubs, pick(opposite!, attribute), pick(tool!, other)],
  };
}

export function indexOf({ triples, attributes }: Pick<KgTask, "triples" | "attributes">): TripleIndex {
  const graph = new TripleIndex();
  for (const triple of triples) graph.add(triple);
  for (const [subject, attribute, value] of attributes) graph.setValue(subject, attribute, value);
  return graph;
}

function answerOf(graph: TripleIndex, actions: KgAction[]): string[] {
  const { program, hidden } = programsOf(actions);
  return [...evaluate(graph, program, hidden)].sort();
}

function sameSet(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((item, at) => item === b[at]);
}

function isBetween(value: number, low: number, high: number): boolean {
  return value >= low && value <= high;
}
