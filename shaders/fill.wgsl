// out = value.
#include "elementwise.wgsl"

struct Params {
  length: u32,
  value: {{TYPE}},
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read_write> out: array<{{TYPE}}>;

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
      out[i] = p.value;
    }
  }
}
