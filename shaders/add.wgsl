// out = a + b. An operand that is `out` itself is not bound again: OTHERS counts those that are not.
#include "elementwise.wgsl"

struct Params {
  length: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read_write> out: array<f32>;
#if OTHERS != 0
@group(0) @binding(1) var<storage, read> a: array<f32>;
#endif
#if OTHERS == 2
@group(0) @binding(2) var<storage, read> b: array<f32>;
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
#if OTHERS == 2
      out[i] = a[i] + b[i];
#elif OTHERS == 1
      out[i] = a[i] + out[i];
#else
      out[i] = out[i] + out[i];
#endif
    }
  }
}
