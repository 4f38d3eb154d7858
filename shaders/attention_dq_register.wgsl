// Gradient of causal attention for the queries, without workgroup memory: a thread computes QUERIES heads of one row that
// share a kv head, and sums up
// in `d_q` itself.
#include "attention_keys.wgsl"
#include "attention_softmax.wgsl"
#include "attention_gradient.wgsl"

const QUERIES = {{QUERIES}}u;
const WORKGROUP = 8u;

// [rows, heads]: log-sum-exp and D.
@group(0) @binding(4) var<storage, read> statistics: array<vec2f>;
@group(0) @binding(5) var<storage, read> d_out: array<vec4f>;
@group(0) @binding(6) var<storage, read_write> d_q: array<vec4f>;

@compute @workgroup_size(WORKGROUP)
fn main(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) thread: u32,
) {
  let item = (group.y * groups.x + group.x) * WORKGROUP + thread;
  let parts = params.heads / QUERIES;
  let row = item / parts;
  if (row >= params.rows) {
    return;
  }
  let first_head = item % parts * QUERIES;
  let kv_head = first_head / (params.heads / params.kv_heads);
  let place = place_of(row);
  let keys = block_row(place, 0u);

  let first = query_at(row, first_head);
  for (var d = 0u; d < QUERIES * params.dims; d++) {
    d_q[first + d] = vec4f(0.0);
  }

  let seen = place.position + 1u;
  for (var quad = 0u; 4u * quad < seen; quad++) {
    let at = quad_at(keys, quad, seen, kv_head);
    var s = array<vec4f, QUERIES>();
    var d_p = array<vec4f, QUERIES>();
    for (var d = 0u; d < params.dims; d++) {
      let k0 = k[at.x + d];
      let k1 = k[at.y + d];
      let k2 = k[at.z + d];
      let k3 = k[at.w + d];
      let v0 = v[at.x + d];
      let v1 = v[at.y + d];
      let v2 = v[at.z + d];
      let v3 = v[at.w + d];
      for (var i = 0u; i < QUERIES; i++) {
        let x = first + i * params.dims + d;
        s[i] = add_products(s[i], q[x] * params.scale, k0, k1, k2, k3);
        d_p[i] = add_products(d_p[i], d_out[x], v0, v1, v2, v3);
      }
    }
    for (var i = 0u; i < QUERIES; i++) {
      let kept = statistics[row * params.heads + first_head + i];
      let p = probability(s[i], vec4f(kept.x), visible(quad, seen));
      s[i] = score_gradient(p, d_p[i], vec4f(kept.y), visible(quad, seen));
    }
    for (var d = 0u; d < params.dims; d++) {
      let k0 = k[at.x + d];
      let k1 = k[at.y + d];
      let k2 = k[at.z + d];
      let k3 = k[at.w + d];
      for (var i = 0u; i < QUERIES; i++) {
        let x = first + i * params.dims + d;
        d_q[x] = add_values(d_q[x], s[i], k0, k1, k2, k3, quad, seen);
      }
    }
  }
}
