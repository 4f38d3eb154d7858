// d_table[ids[r] - first,:] += d_out[r,:], rows in ascending order: the first row of an id adds itself and then the rows
// of its chain (embed_links.wgsl), so that no element has two writers. Ids outside the window [first, first + limit)
// that `d_table` holds are left to other windows.
#include "rows.wgsl"
#include "embed_chain.wgsl"

struct Params {
  rows: u32,
  // rows * width
  lanes: u32,
  width: u32,
  first: u32,
  limit: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> ids: array<u32>;
@group(0) @binding(1) var<storage, read> links: array<u32>;
@group(0) @binding(2) var<storage, read> d_out: array<Lane>;
@group(0) @binding(3) var<storage, read_write> d_table: array<Lane>;

@compute @workgroup_size(64)
fn main(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) thread: u32,
) {
  let start = first_element(group, groups, thread);
  for (var j = 0u; j < PER_THREAD; j++) {
    let lane = start + j * WORKGROUP;
    if (lane < p.lanes) {
      let at = place_of(lane, p.width);
      let row = ids[at.row] - p.first;
      var link = links[at.row];
      if (row < p.limit && (link & HAS_EARLIER) == 0u) {
        var sum = d_table[row * p.width + at.column] + d_out[lane];
        while (link < p.rows) {
          sum += d_out[link * p.width + at.column];
          link = links[link] & ~HAS_EARLIER;
        }
        d_table[row * p.width + at.column] = sum;
      }
    }
  }
}
