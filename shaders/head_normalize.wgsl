// log_probs = z - lse, in place. One thread for each row of the block. Apart from the kernels that compute z and lse, so
// that both come rounded from memory and sampling and scoring agree to the bit.
#include "head_common.wgsl"

struct Params {
  first_row: u32,
  rows: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> lse: array<f32>;
@group(0) @binding(1) var<storage, read_write> log_probs: array<f32>;

@compute @workgroup_size(THREADS)
fn main(@builtin(global_invocation_id) id: vec3u) {
  if (id.x < p.rows) {
    let row = p.first_row + id.x;
    log_probs[row] = log_probs[row] - lse[row];
  }
}
