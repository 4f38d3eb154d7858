// RMSNorm (Zhang & Sennrich 2019): out = x r w with r = 1 / sqrt(mean(x^2) + eps). A workgroup a row; the order of a row's
// sum depends on its dimension alone.
requires immediate_address_space;
#include "row_sum.wgsl"

alias Lane = {{LANE}};

struct Params {
  rows: u32,
  // Lanes of a row, and its elements.
  width: u32,
  dim: f32,
  eps: f32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<Lane>;
@group(0) @binding(1) var<storage, read> weight: array<Lane>;
@group(0) @binding(2) var<storage, read_write> out: array<Lane>;
@group(0) @binding(3) var<storage, read_write> inv_rms: array<f32>;

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
  var squares = Lane();
  for (var i = thread; i < p.width; i += THREADS) {
    let value = x[at + i];
    squares = fma(value, value, squares);
  }
  let r = 1.0 / sqrt(row_sum(thread, lane_sum(squares)) / p.dim + p.eps);
  if (thread == 0u) {
    inv_rms[row] = r;
  }
  for (var i = thread; i < p.width; i += THREADS) {
    out[at + i] = x[at + i] * r * weight[i];
  }
}
