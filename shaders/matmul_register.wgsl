// Matrix product without workgroup memory: a thread keeps ROWS x 4 outputs in registers and reads operands straight from
// memory. A workgroup is WIDTH threads side by side in one band of rows, so that all of them read the same elements of a.
#include "matmul_common.wgsl"

@compute @workgroup_size({{WIDTH}})
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
  let row = group.y * {{ROWS}}u;
  let column = (group.x * {{WIDTH}}u + thread) * 4u;
  var chains: array<vec4f, {{ROWS}}>;
  for (var i = 0u; i < {{ROWS}}u; i++) {
    chains[i] = start4(row + i, column);
  }
  let whole = p.k - p.k % 4u;
  for (var k = 0u; k < whole; k += 4u) {
    let b4 = b_block(k, column);
    for (var i = 0u; i < {{ROWS}}u; i += 4u) {
      let a4 = a_block(row + i, k);
      for (var j = 0u; j < 4u; j++) {
        chains[i + j] = step4(chains[i + j], a4[j], b4);
      }
    }
  }
  for (var k = whole; k < p.k; k++) {
    let b1 = b_across(k, column);
    for (var i = 0u; i < {{ROWS}}u; i++) {
      chains[i] = fma(vec4f(a_at(row + i, k)), b1, chains[i]);
    }
  }
  for (var i = 0u; i < {{ROWS}}u; i++) {
    finish4(row + i, column, chains[i]);
  }
}
