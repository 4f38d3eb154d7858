// Matrix product without workgroup memory: a thread keeps ROWS x 4 outputs (ROWS 4 or 8) in registers and reads operands
// straight from memory. A workgroup is X x Y threads. Loops over registers are written out: not every driver unrolls
// them, and one that does not keeps the registers in memory.
#include "matmul_common.wgsl"

@compute @workgroup_size({{X}}, {{Y}})
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_id) thread: vec3u) {
  let row = (group.y * {{Y}}u + thread.y) * {{ROWS}}u;
  let column = (group.x * {{X}}u + thread.x) * 4u;
  let a_upper = a_places(row);
  let b_columns = b_places(column);
  var c0 = start4(row, column);
  var c1 = start4(row + 1u, column);
  var c2 = start4(row + 2u, column);
  var c3 = start4(row + 3u, column);
#if ROWS == 8
  let a_lower = a_places(row + 4u);
  var c4 = start4(row + 4u, column);
  var c5 = start4(row + 5u, column);
  var c6 = start4(row + 6u, column);
  var c7 = start4(row + 7u, column);
#endif
  let whole = p.k - p.k % 4u;
  for (var k = 0u; k < whole; k += 4u) {
    let b4 = b_block(b_columns, k);
    let a4 = a_block(a_upper, k);
    c0 = step4(c0, a4[0].x, a4[1].x, a4[2].x, a4[3].x, b4);
    c1 = step4(c1, a4[0].y, a4[1].y, a4[2].y, a4[3].y, b4);
    c2 = step4(c2, a4[0].z, a4[1].z, a4[2].z, a4[3].z, b4);
    c3 = step4(c3, a4[0].w, a4[1].w, a4[2].w, a4[3].w, b4);
#if ROWS == 8
    let a8 = a_block(a_lower, k);
    c4 = step4(c4, a8[0].x, a8[1].x, a8[2].x, a8[3].x, b4);
    c5 = step4(c5, a8[0].y, a8[1].y, a8[2].y, a8[3].y, b4);
    c6 = step4(c6, a8[0].z, a8[1].z, a8[2].z, a8[3].z, b4);
    c7 = step4(c7, a8[0].w, a8[1].w, a8[2].w, a8[3].w, b4);
#endif
  }
  for (var k = whole; k < p.k; k++) {
    let b1 = b_across(b_columns, k);
    let a1 = a_across(a_upper, k);
    c0 = fma(vec4f(a1.x), b1, c0);
    c1 = fma(vec4f(a1.y), b1, c1);
    c2 = fma(vec4f(a1.z), b1, c2);
    c3 = fma(vec4f(a1.w), b1, c3);
#if ROWS == 8
    let a2 = a_across(a_lower, k);
    c4 = fma(vec4f(a2.x), b1, c4);
    c5 = fma(vec4f(a2.y), b1, c5);
    c6 = fma(vec4f(a2.z), b1, c6);
    c7 = fma(vec4f(a2.w), b1, c7);
#endif
  }
  finish4(row, column, c0);
  finish4(row + 1u, column, c1);
  finish4(row + 2u, column, c2);
  finish4(row + 3u, column, c3);
#if ROWS == 8
  finish4(row + 4u, column, c4);
  finish4(row + 5u, column, c5);
  finish4(row + 6u, column, c6);
  finish4(row + 7u, column, c7);
#endif
}
