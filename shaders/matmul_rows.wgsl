// Matrix product for few rows, as in decoding: a thread owns one column and ROWS rows (4 or 8), so that every element of b
// is read by one workgroup only for each band of rows. Where columns are neighbours in memory, threads read b directly; in
// layout nt they stage it, so that runs along k are read whole.
#include "matmul_common.wgsl"

const WIDTH = 64u;
const DEPTH = 16u;

#if LAYOUT == nt
// Along k first: four columns in a vector.
var<workgroup> b_tile: array<array<vec4f, WIDTH / 4u>, DEPTH>;
#endif

fn start_rows(row: u32, column: u32) -> vec4f {
  return vec4f(start(row, column), start(row + 1u, column), start(row + 2u, column), start(row + 3u, column));
}

fn finish_rows(row: u32, column: u32, chains: vec4f) {
  finish(row, column, chains.x);
  finish(row + 1u, column, chains.y);
  finish(row + 2u, column, chains.z);
  finish(row + 3u, column, chains.w);
}

@compute @workgroup_size(WIDTH)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
  let row = group.y * {{ROWS}}u;
  let column = group.x * WIDTH + thread;
  let upper_rows = a_places(row);
  var upper = start_rows(row, column);
#if ROWS == 8
  let lower_rows = a_places(row + 4u);
  var lower = start_rows(row + 4u, column);
#endif
#if LAYOUT == nt
  let vector = thread / 4u;
  let depth_of_thread = thread % 4u * 4u;
  let columns = b_places(group.x * WIDTH + vector * 4u);
  for (var first = 0u; first < p.k; first += DEPTH) {
    let depth = min(DEPTH, p.k - first);
    workgroupBarrier();
    if (depth_of_thread + 4u <= depth) {
      let block = b_block(columns, first + depth_of_thread);
      b_tile[depth_of_thread][vector] = block[0];
      b_tile[depth_of_thread + 1u][vector] = block[1];
      b_tile[depth_of_thread + 2u][vector] = block[2];
      b_tile[depth_of_thread + 3u][vector] = block[3];
    } else {
      for (var i = depth_of_thread; i < depth; i++) {
        b_tile[i][vector] = b_across(columns, first + i);
      }
    }
    workgroupBarrier();
    for (var i = 0u; i < depth; i++) {
      let b1 = vec4f(b_tile[i][vector][thread % 4u]);
      upper = fma(a_across(upper_rows, first + i), b1, upper);
#if ROWS == 8
      lower = fma(a_across(lower_rows, first + i), b1, lower);
#endif
    }
  }
#else
  let place = p.b_offset + min(column, p.n - 1u);
  for (var k = 0u; k < p.k; k++) {
    let b1 = vec4f(b_at(place + k * p.ldb));
    upper = fma(a_across(upper_rows, k), b1, upper);
#if ROWS == 8
    lower = fma(a_across(lower_rows, k), b1, lower);
#endif
  }
#endif
  finish_rows(row, column, upper);
#if ROWS == 8
  finish_rows(row + 4u, column, lower);
#endif
}
