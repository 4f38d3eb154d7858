// out = x * factor. IN_PLACE: out holds x.
#include "elementwise.wgsl"

struct Params {
  length: u32,
  factor: f32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read_write> out: array<f32>;
#if !IN_PLACE
@group(0) @binding(1) var<storage, read> x: array<f32>;
#endif

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
#if IN_PLACE
      out[i] = out[i] * p.factor;
#else
      out[i] = x[i] * p.factor;
#endif
    }
  }
}
