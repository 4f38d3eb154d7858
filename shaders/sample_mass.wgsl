// Probability that the cut leaves in one chunk of one row, written to the chunk's partial softmax. A workgroup (x, y) takes
// chunk x of the block's row y.
#include "sample_common.wgsl"
#include "head_tree.wgsl"

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
@group(0) @binding(4) var<storage, read_write> partials: array<vec4f>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
  let row = p.first_row + group.y;
  let inverse = inverse_temperature(temperatures[row]);
  let begin = group.x * CHUNK;
  let end = min(begin + CHUNK, p.vocab);
  let at = group.y * p.vocab;
  let cut = cuts[group.y];

  var mass = 0.0;
  for (var id = begin + thread; id < end; id += THREADS) {
    mass += kept_probability(cut, logits[at + id], inverse, lse[row], id);
  }
  let total = tree_sum(thread, vec2f(mass, 0.0)).x;
  if (thread == 0u) {
    partials[group.y * p.chunks + group.x].w = total;
  }
}
