// What the gradient of attention needs of each query: the log-sum-exp of its scores, and D = dOut . out, which the
// gradient of its softmax subtracts (FlashAttention-2, Dao 2023, section 3.1). D is one chain over the head's dimensions.
requires immediate_address_space;

const WORKGROUP = 64u;

struct Params {
  // rows * heads
  queries: u32,
  // Vectors of four in a head.
  dims: u32,
}
var<immediate> params: Params;
@group(0) @binding(0) var<storage, read> out: array<vec4f>;
@group(0) @binding(1) var<storage, read> lse: array<f32>;
@group(0) @binding(2) var<storage, read> d_out: array<vec4f>;
@group(0) @binding(3) var<storage, read_write> statistics: array<vec2f>;

@compute @workgroup_size(WORKGROUP)
fn main(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) thread: u32,
) {
  let query = (group.y * groups.x + group.x) * WORKGROUP + thread;
  if (query >= params.queries) {
    return;
  }
  var sum = 0.0;
  for (var d = 0u; d < params.dims; d++) {
    let a = d_out[query * params.dims + d];
    let b = out[query * params.dims + d];
    sum = fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, sum))));
  }
  statistics[query] = vec2f(lse[query], sum);
}
