// Gradient of RMSNorm by its weight: d_weight += sum over rows of dy x r, one chain of fused multiply-adds down the rows,
// so that a batch may be cut anywhere. A thread a column; eight rows are loaded at a time to hide the way to memory.
requires immediate_address_space;

const ROWS_AT_ONCE = 8u;

struct Params {
  rows: u32,
  dim: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> inv_rms: array<f32>;
@group(0) @binding(2) var<storage, read> d_out: array<f32>;
@group(0) @binding(3) var<storage, read_write> d_weight: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let column = id.x;
  if (column >= p.dim) {
    return;
  }
  var total = d_weight[column];
  var row = 0u;
  var at = column;
  for (; row + ROWS_AT_ONCE <= p.rows; row += ROWS_AT_ONCE) {
    var normed: array<f32, ROWS_AT_ONCE>;
    var dy: array<f32, ROWS_AT_ONCE>;
    for (var j = 0u; j < ROWS_AT_ONCE; j++) {
      normed[j] = x[at] * inv_rms[row + j];
      dy[j] = d_out[at];
      at += p.dim;
    }
    for (var j = 0u; j < ROWS_AT_ONCE; j++) {
      total = fma(dy[j], normed[j], total);
    }
  }
  for (; row < p.rows; row++) {
    total = fma(d_out[at], x[at] * inv_rms[row], total);
    at += p.dim;
  }
  d_weight[column] = total;
}
