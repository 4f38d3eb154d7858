// The token of a row, in ascending order of ids: the first at which the running sum of kept probabilities exceeds
// u * (their total), found by chunk and then inside it; at temperature 0 the first of the largest logit. One workgroup for
// each row of the block.
#include "sample_common.wgsl"
#include "philox.wgsl"

struct Params {
  first_row: u32,
  vocab: u32,
  chunks: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> logits: array<f32>;
@group(0) @binding(1) var<storage, read> temperatures: array<f32>;
@group(0) @binding(2) var<storage, read> lse: array<f32>;
@group(0) @binding(3) var<storage, read> cuts: array<vec2u>;
@group(0) @binding(4) var<storage, read> partials: array<vec4f>;  // x: largest z of the chunk, w: kept mass
@group(0) @binding(5) var<storage, read> seeds: array<vec4u>;
@group(0) @binding(6) var<storage, read_write> tokens: array<u32>;
@group(0) @binding(7) var<storage, read_write> kept_mass: array<f32>;

const NONE = 0xffffffffu;
const PER_THREAD = CHUNK / THREADS;

var<workgroup> running: array<f32, THREADS>;
var<workgroup> lowest: atomic<u32>;
var<workgroup> highest: atomic<u32>;
var<workgroup> chosen: u32;
var<workgroup> mass_before: f32;

// running[i] = sum of the values of threads 0..i (Hillis & Steele 1986).
fn scan(thread: u32, value: f32) {
  running[thread] = value;
  workgroupBarrier();
  for (var distance = 1u; distance < THREADS; distance <<= 1u) {
    var more = 0.0;
    if (thread >= distance) {
      more = running[thread - distance];
    }
    workgroupBarrier();
    running[thread] += more;
    workgroupBarrier();
  }
}

// The lowest `candidate` that is not NONE, else the highest `otherwise`. All threads call.
fn agree(thread: u32, candidate: u32, otherwise: u32) -> u32 {
  if (thread == 0u) {
    atomicStore(&lowest, NONE);
    atomicStore(&highest, 0u);
  }
  workgroupBarrier();
  atomicMin(&lowest, candidate);
  atomicMax(&highest, otherwise);
  workgroupBarrier();
  let found = atomicLoad(&lowest);
  let result = select(found, atomicLoad(&highest), found == NONE);
  workgroupBarrier();
  return result;
}

// The thread whose values carry the running sum over `goal`; rounding may leave none, then the last that has any.
// A thread without mass is never taken, though the scan may round its sum up.
fn thread_at(thread: u32, value: f32, goal: f32) -> u32 {
  let reaches = value > 0.0 && running[thread] > goal;
  return agree(thread, select(NONE, thread, reaches), select(0u, thread, value > 0.0));
}

fn sum_before(thread: u32) -> f32 {
  return select(0.0, running[max(thread, 1u) - 1u], thread > 0u);
}

fn largest(thread: u32, row: u32) -> u32 {
  var top = LOWEST;
  for (var c = 0u; c < p.chunks; c++) {
    top = max(top, partials[row * p.chunks + c].x);
  }
  var first = NONE;
  for (var c = thread; c < p.chunks && first == NONE; c += THREADS) {
    if (partials[row * p.chunks + c].x == top) {
      first = c;
    }
  }
  let chunk = agree(thread, first, 0u);
  first = NONE;
  let end = min((chunk + 1u) * CHUNK, p.vocab);
  for (var id = chunk * CHUNK + thread; id < end && first == NONE; id += THREADS) {
    if (logits[row * p.vocab + id] == top) {
      first = id;
    }
  }
  return agree(thread, first, 0u);
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
  let row = p.first_row + group.x;
  if (temperatures[row] == 0.0) {
    let token = largest(thread, group.x);
    if (thread == 0u) {
      tokens[row] = token;
      kept_mass[row] = 1.0;
    }
    return;
  }
  let cut = cuts[group.x];
  let inverse = inverse_temperature(temperatures[row]);
  let seed = seeds[row];
  let u = f32(philox(vec4u(seed.xyz, 0u), vec2u(seed.w, 0u)).x) / 4294967296.0;

  // The chunk. A thread takes a run of neighbouring ones.
  let each = (p.chunks + THREADS - 1u) / THREADS;
  let first_chunk = min(thread * each, p.chunks);
  let end_chunk = min(first_chunk + each, p.chunks);
  let parts = group.x * p.chunks;
  var mass = 0.0;
  for (var c = first_chunk; c < end_chunk; c++) {
    mass += partials[parts + c].w;
  }
  scan(thread, mass);
  let total = running[THREADS - 1u];
  let goal = u * total;
  if (thread == thread_at(thread, mass, goal)) {
    var sum = sum_before(thread);
    chosen = first_chunk;
    mass_before = sum;
    for (var c = first_chunk; c < end_chunk; c++) {
      let weight = partials[parts + c].w;
      if (weight > 0.0) {
        chosen = c;
        mass_before = sum;
        sum += weight;
        if (sum > goal) {
          break;
        }
      }
    }
  }
  let chunk = workgroupUniformLoad(&chosen);
  let left = goal - workgroupUniformLoad(&mass_before);

  // The token in it.
  let first_id = chunk * CHUNK + thread * PER_THREAD;
  let end_id = min(first_id + PER_THREAD, p.vocab);
  let at = group.x * p.vocab;
  mass = 0.0;
  for (var id = first_id; id < end_id; id++) {
    mass += kept_probability(cut, logits[at + id], inverse, lse[row], id);
  }
  scan(thread, mass);
  if (thread == thread_at(thread, mass, left)) {
    var sum = sum_before(thread);
    var token = min(first_id, p.vocab - 1u);
    for (var id = first_id; id < end_id; id++) {
      let weight = kept_probability(cut, logits[at + id], inverse, lse[row], id);
      if (weight > 0.0) {
        token = id;
        sum += weight;
        if (sum > left) {
          break;
        }
      }
    }
    tokens[row] = token;
    kept_mass[row] = select(min(total, 1.0), 1.0, all(cut == NO_CUT));
  }
}
