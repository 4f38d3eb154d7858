// Rotary embedding in place (Su et al. 2021, half-split form): dimensions i and i + headDim/2 of a head turn by the
// angle of the row's position. The inverse turns back, which is the gradient, since rotations are orthogonal.
#include "elementwise.wgsl"

const HALF = {{HALF}}u;

struct Params {
  // rows * heads * headDim/2
  pairs: u32,
  heads: u32,
  // 1, or -1 for the inverse.
  direction: f32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@group(0) @binding(1) var<storage, read> cos_sin: array<f32>;
@group(0) @binding(2) var<storage, read> positions: array<u32>;

@compute @workgroup_size(64)
fn main(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) thread: u32,
) {
  let start = first_element(group, groups, thread);
  for (var j = 0u; j < PER_THREAD; j++) {
    let pair = start + j * WORKGROUP;
    if (pair < p.pairs) {
      let head = pair / HALF;
      let i = pair % HALF;
      let angle = positions[head / p.heads] * 2u * HALF + i;
      let c = cos_sin[angle];
      let s = cos_sin[angle + HALF] * p.direction;
      let first = head * 2u * HALF + i;
      let a = x[first];
      let b = x[first + HALF];
      x[first] = fma(-b, s, a * c);
      x[first + HALF] = fma(a, s, b * c);
    }
  }
}
