// Sums of blocks of 4,096 elements, or of their squares (SQUARED): a workgroup a block, 64 chains and one tree. A block's
// sum goes to out[offset + block].
requires immediate_address_space;
#include "row_sum.wgsl"

const BLOCK = 4096u;

struct Params {
  length: u32,
  blocks: u32,
  offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(64)
fn main(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) thread: u32,
) {
  let block = group.y * groups.x + group.x;
  if (block >= p.blocks) {
    return;
  }
  let end = min((block + 1u) * BLOCK, p.length);
  var sum = 0.0;
  for (var i = block * BLOCK + thread; i < end; i += THREADS) {
#if SQUARED
    sum = fma(x[i], x[i], sum);
#else
    sum += x[i];
#endif
  }
  let total = row_sum(thread, sum);
  if (thread == 0u) {
    out[p.offset + block] = total;
  }
}
