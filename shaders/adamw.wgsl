// AdamW (Loshchilov & Hutter 2019, Algorithm 2). correct1 and correct2 are 1 / (1 - beta^step), rest1 and rest2 1 - beta.
// IN_PLACE: out holds the values.
#include "elementwise.wgsl"

struct Params {
  length: u32,
  lr: f32,
  beta1: f32,
  rest1: f32,
  correct1: f32,
  beta2: f32,
  rest2: f32,
  correct2: f32,
  eps: f32,
  decay: f32,
  grad_scale: f32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> grad: array<f32>;
@group(0) @binding(1) var<storage, read_write> first_moment: array<f32>;
@group(0) @binding(2) var<storage, read_write> second_moment: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;
#if !IN_PLACE
@group(0) @binding(4) var<storage, read> param: array<f32>;
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
      let g = grad[i] * p.grad_scale;
      let m = fma(p.beta1, first_moment[i], p.rest1 * g);
      let v = fma(p.beta2, second_moment[i], p.rest2 * (g * g));
      first_moment[i] = m;
      second_moment[i] = v;
#if IN_PLACE
      let value = out[i];
#else
      let value = param[i];
#endif
      let direction = m * p.correct1 / (sqrt(v * p.correct2) + p.eps);
      out[i] = fma(-p.lr, fma(p.decay, value, direction), value);
    }
  }
}
