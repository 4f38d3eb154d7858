// out = x rounded to TO, f16 or bf16. HALF: out is f16, and so is TO. IN_PLACE: out holds the values.
#if HALF
enable f16;
#endif
#include "elementwise.wgsl"
#include "half.wgsl"

struct Params {
  length: u32,
}
var<immediate> p: Params;
#if HALF
@group(0) @binding(0) var<storage, read_write> out: array<f16>;
#else
@group(0) @binding(0) var<storage, read_write> out: array<u32>;
#endif
#if !IN_PLACE
@group(0) @binding(1) var<storage, read> x: array<u32>;
#endif

fn nearest(bits: u32) -> u32 {
#if TO == f16
  return half_bits(bits);
#else
  return bf16_bits(bits);
#endif
}

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
#if HALF
      out[i] = half(x[i]);
#elif IN_PLACE
      out[i] = nearest(out[i]);
#else
      out[i] = nearest(x[i]);
#endif
    }
  }
}
