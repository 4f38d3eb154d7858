// out = silu(gate) * up.
#include "elementwise.wgsl"
#include "sigmoid.wgsl"

struct Params {
  length: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> gate: array<f32>;
@group(0) @binding(1) var<storage, read> up: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

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
      out[i] = x * sigmoid(x) * up[i];
    }
  }
}
