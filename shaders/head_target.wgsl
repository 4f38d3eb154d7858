// out[row] = z of the row's token, where these columns of the vocabulary hold it. One thread for each row of the block.
#include "head_common.wgsl"

struct Params {
  first_row: u32,
  rows: u32,     // of the block
  stride: u32,   // of a row of logits, which begins with vocabulary entry first
  first: u32,
  columns: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> logits: array<f32>;
@group(0) @binding(1) var<storage, read> temperatures: array<f32>;
@group(0) @binding(2) var<storage, read> tokens: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(THREADS)
fn main(@builtin(global_invocation_id) id: vec3u) {
  if (id.x >= p.rows) {
    return;
  }
  let row = p.first_row + id.x;
  let token = tokens[row];
  if (token >= p.first && token - p.first < p.columns) {
    out[row] = logits[id.x * p.stride + token - p.first] * inverse_temperature(temperatures[row]);
  }
}
