// Where top-k, top-p and min-p cut a row. All three keep a head of the same order, so the shortest is found by one search
// over the keys of z for the largest one whose head holds k tokens or mass p; min-p bounds the search from below. Each
// step takes four edges, so a row is read 14 times at most, and of a row only the chunks whose maximum reaches them. One
// workgroup for each row of the block.
#include "sample_common.wgsl"

struct Params {
  first_row: u32,
  vocab: u32,
  chunks: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> logits: array<f32>;
@group(0) @binding(1) var<storage, read> temperatures: array<f32>;
@group(0) @binding(2) var<storage, read> lse: array<f32>;
@group(0) @binding(3) var<storage, read> partials: array<vec4f>;
@group(0) @binding(4) var<storage, read> top_k: array<u32>;
@group(0) @binding(5) var<storage, read> top_p: array<f32>;
@group(0) @binding(6) var<storage, read> min_p: array<f32>;
@group(0) @binding(7) var<storage, read_write> cuts: array<vec2u>;

const WIDTH = 128u;
// More ties than any vocabulary has.
const ALL_TIES = 0x7fffffffu;

var<workgroup> counts: array<vec4u, WIDTH>;
var<workgroup> masses: array<vec4f, WIDTH>;

// Adds counts and masses of all threads up in a fixed tree, into element 0, which is then read by workgroupUniformLoad.
fn add_up(thread: u32, count: vec4u, mass: vec4f) {
  counts[thread] = count;
  masses[thread] = mass;
  for (var half = WIDTH / 2u; half > 0u; half >>= 1u) {
    workgroupBarrier();
    if (thread < half) {
      counts[thread] += counts[thread + half];
      masses[thread] += masses[thread + half];
    }
  }
}

// Number and mass of the tokens from each of four ascending edges on.
fn measure_heads(thread: u32, row: u32, inverse: f32, total: f32, edges: vec4u) {
  var count = vec4u(0u);
  var mass = vec4f(0.0);
  for (var c = 0u; c < p.chunks; c++) {
    if (key_of(partials[row * p.chunks + c].x) < edges.x) {
      continue;
    }
    let end = min((c + 1u) * CHUNK, p.vocab);
    for (var id = c * CHUNK + thread; id < end; id += WIDTH) {
      let logit = logits[row * p.vocab + id];
      let inside = vec4u(key_of(logit * inverse)) >= edges;
      count += select(vec4u(0u), vec4u(1u), inside);
      mass += select(vec4f(0.0), vec4f(probability(logit, inverse, total)), inside);
    }
  }
  add_up(thread, count, mass);
}

// Number of tokens of this key before each of four ids.
fn count_ties(thread: u32, row: u32, inverse: f32, key: u32, ids: vec4u) {
  var count = vec4u(0u);
  for (var id = thread; id < p.vocab; id += WIDTH) {
    if (key_of(logits[row * p.vocab + id] * inverse) == key) {
      count += select(vec4u(0u), vec4u(1u), vec4u(id) < ids);
    }
  }
  add_up(thread, count, vec4f(0.0));
}

// Four numbers inside (low, high), ascending, that part it evenly. high - low >= 2.
fn edges_between(low: u32, high: u32) -> vec4u {
  let step = (high - low + 4u) / 5u;
  return min(vec4u(low) + step * vec4u(1u, 2u, 3u, 4u), vec4u(high - 1u));
}

@compute @workgroup_size(WIDTH)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
  let row = p.first_row + group.x;
  let temperature = temperatures[row];
  let k = top_k[row];
  let mass_wanted = top_p[row];
  let cut_k = k > 0u && k < p.vocab;
  let cut_p = mass_wanted < 1.0;
  let cut_min = min_p[row] > 0.0;
  if (temperature == 0.0 || !(cut_k || cut_p || cut_min)) {
    if (thread == 0u) {
      cuts[group.x] = NO_CUT;
    }
    return;
  }

  let inverse = inverse_temperature(temperature);
  let total = lse[row];
  var peak = LOWEST;
  for (var c = 0u; c < p.chunks; c++) {
    peak = max(peak, partials[group.x * p.chunks + c].x);
  }

  // The head from `low` on is long enough, or all that min-p leaves; the head from `high` on is too short. The search may
  // end when one token lies between them.
  var low = 0u;
  if (cut_min) {
    low = key_of(min(peak + log(min_p[row]), peak));
  }
  var high = key_of(peak) + 1u;
  var count_low = 0u;
  var count_high = 0u;
  var mass_high = 0.0;
  while ((cut_k || cut_p) && high - low > 1u && count_low != count_high + 1u) {
    let edges = edges_between(low, high);
    measure_heads(thread, group.x, inverse, total, edges);
    let count = workgroupUniformLoad(&counts[0]);
    let mass = workgroupUniformLoad(&masses[0]);
    for (var j = 0u; j < 4u; j++) {
      if ((cut_k && count[j] >= k) || (cut_p && mass[j] >= mass_wanted)) {
        low = edges[j];
        count_low = count[j];
      } else {
        high = edges[j];
        count_high = count[j];
        mass_high = mass[j];
        break;
      }
    }
  }

  // Of the tokens whose key is `low`, as many as complete the count or the mass.
  var ties = ALL_TIES;
  if (cut_k) {
    ties = k - count_high;
  }
  if (cut_p) {
    let each = exp(max(number_of(low) - total, FLOOR));
    let missing = mass_wanted - mass_high;
    if (missing < each * f32(ties)) {
      ties = max(u32(ceil(missing / each)), 1u);
    }
  }
  var last = ALL_IDS;
  if (count_low > count_high && ties < count_low - count_high) {
    // Too few lie before id `few`, enough before id `enough`.
    var few = 0u;
    var enough = p.vocab;
    while (enough - few > 1u) {
      let ids = edges_between(few, enough);
      count_ties(thread, group.x, inverse, low, ids);
      let count = workgroupUniformLoad(&counts[0]);
      for (var j = 0u; j < 4u; j++) {
        if (count[j] < ties) {
          few = ids[j];
        } else {
          enough = ids[j];
          break;
        }
      }
    }
    last = enough - 1u;
  }
  if (thread == 0u) {
    cuts[group.x] = vec2u(low, last);
  }
}
