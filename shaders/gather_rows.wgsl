// out[r,:] = x[index[r] - first,:] for the rows whose index lies in the window [first, first + limit) that `x` holds; the
// others are left alone. TYPE: f32, f16 or bf16, of x.
#if TYPE == f16
enable f16;
#endif
#include "rows.wgsl"
#if TYPE == bf16
#include "bf16.wgsl"
#endif

struct Params {
  // rows * width
  lanes: u32,
  width: u32,
  first: u32,
  limit: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> index: array<u32>;
#if TYPE == f32
@group(0) @binding(1) var<storage, read> x: array<Lane>;
#elif TYPE == f16
#if LANE == vec4f
@group(0) @binding(1) var<storage, read> x: array<vec4h>;
#else
@group(0) @binding(1) var<storage, read> x: array<f16>;
#endif
#elif LANE == vec4f
@group(0) @binding(1) var<storage, read> x: array<vec2u>;
#else
@group(0) @binding(1) var<storage, read> x: array<u32>;
#endif
@group(0) @binding(2) var<storage, read_write> out: array<Lane>;

fn x_at(lane: u32) -> Lane {
#if TYPE != bf16
  return Lane(x[lane]);
#elif LANE == vec4f
  return widen4(x[lane]);
#else
  return widen(x[lane / 2u], lane);
#endif
}

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
      // Below `first` the difference wraps to a large number.
      let row = index[at.row] - p.first;
      if (row < p.limit) {
        out[lane] = x_at(row * p.width + at.column);
      }
    }
  }
}
