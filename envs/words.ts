/**
 * The closed word lists of the generated tasks. Every word is one capitalised or lower-case word, so that a byte-level BPE
 * of about a thousand tokens learns each as one token. No value begins with a letter that, after a single quote, looks
 * like an English contraction ('s 't 'm 'd 're 've 'll): the usual pre-tokenisers would tear `'Simon'` apart.
 */
const list = (words: string): readonly string[] => words.trim().split(/\s+/);

export const people = list(`
  Alma Arlo Bella Boris Carl Clara Cora Elsa Emil Enzo Erik Ezra Felix Fiona Gina Greta Hana Hugo Ida Igor
  Ivan Jade Jonas Julia Karl Kira Lara Leo Lina Luca Nadia Nina Noah Olga Otto Paula Petra Quinn Rosa Ruth
`);

export const places = list(`
  Accra Athens Baku Berlin Bogota Boston Cairo Chicago Geneva Hanoi Havana Jakarta
  Kyoto Lagos Lima Lisbon Nairobi Oslo Paris Prague Quito Vienna Warsaw Zagreb
`);

/** Names of works, teams and ships. */
export const titles = list(`
  Amber Anchor Arrow Aurora Beacon Canyon Castle Comet Copper Crystal Echo Eclipse Ember Falcon Forest Galaxy
  Garden Glacier Harbor Horizon Island Jungle Lantern Nebula Ocean Orbit Phoenix Pyramid Quartz River Ruby
  Valley Volcano Voyage Willow Winter
`);

export const animals = list("Bear Bird Cat Fox Goat Horse Owl Wolf");
export const colors = list("Black Blue Brown Gold Gray Green Pink White");
export const jobs = list("Actor Baker Clerk Cook Farmer Judge Nurse Pilot");
export const genres = list("Action Comedy Crime Fantasy History Horror Jazz Opera");
export const foods = list("Apple Bread Cheese Corn Fish Honey Lemon Rice");
