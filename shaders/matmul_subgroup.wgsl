// Matrix product for few rows on adapters with subgroups: a thread owns one column and four rows. The threads of a
// subgroup read a run of a together, one element of k each, and hand it around: the elements come in ascending order
// whatever the subgroup's size, so the chain is that of every other kernel.
enable subgroups;
#include "matmul_common.wgsl"

const WIDTH = 64u;

@compute @workgroup_size(WIDTH)
fn main(
  @builtin(workgroup_id) group: vec3u,
  @builtin(local_invocation_index) thread: u32,
  @builtin(subgroup_size) lanes: u32,
  @builtin(subgroup_invocation_id) lane: u32,
) {
  let row = group.y * 4u;
  let column = group.x * WIDTH + thread;
  let rows = a_places(row);
  var chains = vec4f(start(row, column), start(row + 1u, column), start(row + 2u, column), start(row + 3u, column));
#if LAYOUT == nt
  let place = p.b_offset + min(column, p.n - 1u) * p.ldb;
#else
  let place = p.b_offset + min(column, p.n - 1u);
#endif
  for (var first = 0u; first < p.k; first += lanes) {
    let own = a_across(rows, min(first + lane, p.k - 1u));
    let depth = min(lanes, p.k - first);
    for (var i = 0u; i < depth; i++) {
#if LAYOUT == nt
      let b1 = b_at(place + first + i);
#else
      let b1 = b_at(place + (first + i) * p.ldb);
#endif
      chains = fma(subgroupShuffle(own, i), vec4f(b1), chains);
    }
  }
  finish(row, column, chains.x);
  finish(row + 1u, column, chains.y);
  finish(row + 2u, column, chains.z);
  finish(row + 3u, column, chains.w);
}
