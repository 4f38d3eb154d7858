// out = x, four elements at a time: how fast memory goes when nothing is computed.
#include "elementwise.wgsl"

struct Params {
  // In vectors of four.
  length: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<vec4f>;
@group(0) @binding(1) var<storage, read_write> out: array<vec4f>;

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
      out[i] = x[i];
    }
  }
}
