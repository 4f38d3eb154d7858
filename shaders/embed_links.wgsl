// Chains the rows of equal id: links[r] is the next such row, or `rows` where there is none; HAS_EARLIER is added where
// r is not the first. A thread a row.
#include "elementwise.wgsl"
#include "embed_chain.wgsl"

struct Params {
  rows: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> ids: array<u32>;
@group(0) @binding(1) var<storage, read_write> links: array<u32>;

@compute @workgroup_size(64)
fn main(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) thread: u32,
) {
  let row = (group.y * groups.x + group.x) * WORKGROUP + thread;
  if (row < p.rows) {
    let id = ids[row];
    var link = row + 1u;
    while (link < p.rows && ids[link] != id) {
      link++;
    }
    var earlier = 0u;
    while (earlier < row && ids[earlier] != id) {
      earlier++;
    }
    links[row] = select(link, link | HAS_EARLIER, earlier < row);
  }
}
