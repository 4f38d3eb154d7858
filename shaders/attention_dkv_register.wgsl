// Gradient of causal attention for keys and values, without workgroup memory: a thread computes one kv head of one key
// row, going through the queries that see it in quads of four rows, and sums up in `d_k` and `d_v` themselves.
#include "attention_keys.wgsl"
#include "attention_softmax.wgsl"
#include "attention_gradient.wgsl"

const WORKGROUP = 8u;

// [rows, heads]: log-sum-exp and D.
@group(0) @binding(4) var<storage, read> statistics: array<vec2f>;
@group(0) @binding(5) var<storage, read> d_out: array<vec4f>;
@group(0) @binding(6) var<storage, read_write> d_k: array<vec4f>;
@group(0) @binding(7) var<storage, read_write> d_v: array<vec4f>;

@compute @workgroup_size(WORKGROUP)
fn main(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) thread: u32,
) {
  let item = (group.y * groups.x + group.x) * WORKGROUP + thread;
  let row = item / params.kv_heads;
  if (row >= params.rows) {
    return;
  }
  let kv_head = item % params.kv_heads;
  let group_heads = params.heads / params.kv_heads;
  let queries = place_of(row).following;

  let x = key_at(row, kv_head);
  for (var d = 0u; d < params.dims; d++) {
    d_k[x + d] = vec4f(0.0);
    d_v[x + d] = vec4f(0.0);
  }

  for (var head = kv_head * group_heads; head < (kv_head + 1u) * group_heads; head++) {
    for (var quad = 0u; 4u * quad < queries; quad++) {
      // In the place of rows behind the sequence's last stands the last one.
      let rows = row + min(vec4u(4u * quad) + vec4u(0u, 1u, 2u, 3u), vec4u(queries - 1u));
      let query = rows * params.heads + head;
      let at = query * params.dims;
      var s = vec4f(0.0);
      var d_p = vec4f(0.0);
      for (var d = 0u; d < params.dims; d++) {
        let scale = params.scale;
        s = add_products(s, k[x + d], q[at.x + d] * scale, q[at.y + d] * scale, q[at.z + d] * scale, q[at.w + d] * scale);
        d_p = add_products(d_p, v[x + d], d_out[at.x + d], d_out[at.y + d], d_out[at.z + d], d_out[at.w + d]);
      }
      let kept0 = statistics[query.x];
      let kept1 = statistics[query.y];
      let kept2 = statistics[query.z];
      let kept3 = statistics[query.w];
      let seeing = visible(quad, queries);
      let p = probability(s, vec4f(kept0.x, kept1.x, kept2.x, kept3.x), seeing);
      let d_s = score_gradient(p, d_p, vec4f(kept0.y, kept1.y, kept2.y, kept3.y), seeing);
      for (var d = 0u; d < params.dims; d++) {
        d_k[x + d] =
          add_values(d_k[x + d], d_s, q[at.x + d], q[at.y + d], q[at.z + d], q[at.w + d], quad, queries);
        d_v[x + d] = add_values(
          d_v[x + d], p, d_out[at.x + d], d_out[at.y + d], d_out[at.z + d], d_out[at.w + d], quad, queries);
      }
    }
  }
}
