// Gradient of RMSNorm by its input: dx = r (dy w) - x r^3 / dim * sum(dy w x). A workgroup a row. IN_PLACE: d_x holds dy.
// ACCUMULATE: added to what d_x holds.
requires immediate_address_space;
#include "row_sum.wgsl"

alias Lane = {{LANE}};

struct Params {
  rows: u32,
  // Lanes of a row, and its elements.
  width: u32,
  dim: f32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<Lane>;
@group(0) @binding(1) var<storage, read> weight: array<Lane>;
@group(0) @binding(2) var<storage, read> inv_rms: array<f32>;
@group(0) @binding(3) var<storage, read_write> d_x: array<Lane>;
#if !IN_PLACE
@group(0) @binding(4) var<storage, read> d_out: array<Lane>;
#endif

fn gradient(i: u32) -> Lane {
#if IN_PLACE
  return d_x[i];
#else
  return d_out[i];
#endif
}

@compute @workgroup_size(64)
fn main(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) thread: u32,
) {
  let row = group.y * groups.x + group.x;
  if (row >= p.rows) {
    return;
  }
  let at = row * p.width;
  var products = Lane();
  for (var i = thread; i < p.width; i += THREADS) {
    products = fma(gradient(at + i) * weight[i], x[at + i], products);
  }
  let dot = row_sum(thread, lane_sum(products));
  let r = inv_rms[row];
  let along = r * r * r * dot / p.dim;
  for (var i = thread; i < p.width; i += THREADS) {
    let straight = gradient(at + i) * weight[i] * r;
    let d = fma(x[at + i], Lane(-along), straight);
#if ACCUMULATE
    d_x[at + i] += d;
#else
    d_x[at + i] = d;
#endif
  }
}
