// Merges the chunks of a row: lse = m + log s, entropy = log s - t / s. One workgroup for each row of the block.
#include "head_common.wgsl"
#include "head_tree.wgsl"

struct Params {
  first_row: u32,
  chunks: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> partials: array<vec4f>;
@group(0) @binding(1) var<storage, read_write> lse: array<f32>;
@group(0) @binding(2) var<storage, read_write> entropies: array<f32>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
  let at = group.x * p.chunks;
  var highest = LOWEST;
  for (var c = thread; c < p.chunks; c += THREADS) {
    highest = max(highest, partials[at + c].x);
  }
  let top = tree_max(thread, highest);

  var sums = vec2f(0.0);
  for (var c = thread; c < p.chunks; c += THREADS) {
    let part = partials[at + c];
    let shift = max(part.x - top, FLOOR);
    let factor = exp(shift);
    sums = fma(vec2f(part.y, fma(part.y, shift, part.z)), vec2f(factor), sums);
  }
  let total = tree_sum(thread, sums);
  if (thread == 0u) {
    let log_sum = log(total.x);
    lse[p.first_row + group.x] = top + log_sum;
    entropies[p.first_row + group.x] = log_sum - total.y / total.x;
  }
}
