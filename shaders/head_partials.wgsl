// The softmax of one chunk of one row: (m, s, t, 0) with m = max z, s = sum e^(z - m), t = sum e^(z - m) (z - m). A workgroup
// (x, y) takes chunk first_chunk + x of the block's row y.
#include "head_common.wgsl"
#include "head_tree.wgsl"

struct Params {
  first_row: u32,    // of the block, among temperatures
  stride: u32,       // of a row of logits, which begins with chunk first_chunk
  columns: u32,      // logits of a row that are there
  first_chunk: u32,
  chunks: u32,       // of the whole vocabulary
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> logits: array<f32>;
@group(0) @binding(1) var<storage, read> temperatures: array<f32>;
@group(0) @binding(2) var<storage, read_write> partials: array<vec4f>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
  let inverse = inverse_temperature(temperatures[p.first_row + group.y]);
  let column = group.x * CHUNK;
  let count = min(CHUNK, p.columns - column);
  let at = group.y * p.stride + column;

  var highest = LOWEST;
  for (var i = thread; i < count; i += THREADS) {
    highest = max(highest, logits[at + i] * inverse);
  }
  let top = tree_max(thread, highest);

  var sums = vec2f(0.0);
  for (var i = thread; i < count; i += THREADS) {
    let d = shifted(logits[at + i], inverse, top);
    let e = exp(d);
    sums = vec2f(sums.x + e, fma(e, d, sums.y));
  }
  let total = tree_sum(thread, sums);
  if (thread == 0u) {
    partials[group.y * p.chunks + p.first_chunk + group.x] = vec4f(top, total, 0.0);
  }
}
