// out = x rounded to bf16, in pairs: a word has one owner. What lies behind an odd length in its word is left alone.
#include "elementwise.wgsl"
#include "half.wgsl"

struct Params {
  length: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read_write> out: array<u32>;
@group(0) @binding(1) var<storage, read> x: array<u32>;

@compute @workgroup_size(64)
fn main(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) thread: u32,
) {
  let first = first_element(group, groups, thread);
  for (var j = 0u; j < PER_THREAD; j++) {
    let word = first + j * WORKGROUP;
    let i = 2u * word;
    if (i + 1u < p.length) {
      out[word] = (bf16_bits(x[i]) >> 16u) | bf16_bits(x[i + 1u]);
    } else if (i < p.length) {
      out[word] = (bf16_bits(x[i]) >> 16u) | (out[word] & 0xffff0000u);
    }
  }
}
