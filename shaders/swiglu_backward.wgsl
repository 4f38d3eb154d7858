// Gradients of silu(gate) * up: dUp = dOut silu(gate), dGate = dOut up sigma (1 + gate (1 - sigma)).
#include "elementwise.wgsl"
#include "sigmoid.wgsl"

struct Params {
  length: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> gate: array<f32>;
@group(0) @binding(1) var<storage, read> up: array<f32>;
@group(0) @binding(2) var<storage, read> d_out: array<f32>;
@group(0) @binding(3) var<storage, read_write> d_gate: array<f32>;
@group(0) @binding(4) var<storage, read_write> d_up: array<f32>;

@compute @workgroup_size(64)
fn main(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) thread: u32,
) {
  let first = first_element(group, groups, thread);
  for (var j = 0u; j < PER_THREAD; j++) {
    let i = first + j * WORKGROUP;
    if (i < p.length) {
      let x = gate[i];
      let g = d_out[i];
      let sigma = sigmoid(x);
      d_gate[i] = g * up[i] * sigma * (1.0 + x * (1.0 - sigma));
      d_up[i] = g * (x * sigma);
    }
  }
}
