// Logits replaced by the loss's gradient with respect to them:
//   dL/dz_i = dLogProb ([i = target] - p_i) - dEntropy p_i (log p_i + H), and dL/dlogit = dL/dz / temperature.
// A thread takes one element, a workgroup row y of the block.
#include "head_common.wgsl"

struct Params {
  first_row: u32,
  stride: u32,   // of a row of logits, which begins with vocabulary entry first
  first: u32,
  columns: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read_write> logits: array<f32>;
@group(0) @binding(1) var<storage, read> temperatures: array<f32>;
@group(0) @binding(2) var<storage, read> targets: array<u32>;
@group(0) @binding(3) var<storage, read> lse: array<f32>;
@group(0) @binding(4) var<storage, read> entropies: array<f32>;
@group(0) @binding(5) var<storage, read> d_log_probs: array<f32>;
@group(0) @binding(6) var<storage, read> d_entropies: array<f32>;

@compute @workgroup_size(THREADS)
fn main(@builtin(global_invocation_id) id: vec3u) {
  if (id.x >= p.columns) {
    return;
  }
  let row = p.first_row + id.y;
  let at = id.y * p.stride + id.x;
  let inverse = inverse_temperature(temperatures[row]);
  let log_p = shifted(logits[at], inverse, lse[row]);
  let d_log_prob = d_log_probs[row];
  let inner = fma(d_entropies[row], log_p + entropies[row], d_log_prob);
  let hit = select(0.0, d_log_prob, p.first + id.x == targets[row]);
  logits[at] = fma(-exp(log_p), inner, hit) * inverse;
}
