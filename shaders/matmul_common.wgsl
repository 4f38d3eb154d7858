// What the matrix products share: operands, how they are read, and where an element's chain begins and ends.
//
//   out[m, n] = op(a) op(b)      nn: a[m, k] b[k, n]    nt: a[m, k] b[n, k]    tn: a[k, m] b[k, n]
//
// Every element is one chain of fma() over k in ascending order, so all kernels and tiles give the same bits. Leading
// dimensions and offsets are in elements. VECTOR_A, VECTOR_B: the operand's contiguous axis, its leading dimension and
// its offset are multiples of four, and it is read four elements at a time; VECTOR_OUT: so is out written. B_TYPE: f32, f16
// or bf16, whose numbers are computed with as f32.
//
// Kernels work on four neighbouring rows of a, or columns of b, at once. Their `places` in memory are computed before the
// loop over k, since not every driver moves them there. At an edge the last row or column is repeated: nothing outside
// the operands is read, and `finish` drops what does not exist.
requires immediate_address_space;
#if B_TYPE == f16
enable f16;
#endif

#if B_TYPE == bf16
#include "bf16.wgsl"
#endif

struct Params {
  m: u32,
  n: u32,
  k: u32,
  lda: u32,
  ldb: u32,
  ldc: u32,
  a_offset: u32,
  b_offset: u32,
  out_offset: u32,
}
var<immediate> p: Params;
#if VECTOR_OUT
@group(0) @binding(0) var<storage, read_write> out: array<vec4f>;
#else
@group(0) @binding(0) var<storage, read_write> out: array<f32>;
#endif
#if VECTOR_A
@group(0) @binding(1) var<storage, read> a: array<vec4f>;
#else
@group(0) @binding(1) var<storage, read> a: array<f32>;
#endif
#if B_TYPE == f16
#if VECTOR_B
@group(0) @binding(2) var<storage, read> b: array<vec4h>;
#else
@group(0) @binding(2) var<storage, read> b: array<f16>;
#endif
#elif B_TYPE == bf16
#if VECTOR_B
@group(0) @binding(2) var<storage, read> b: array<vec2u>;
#else
@group(0) @binding(2) var<storage, read> b: array<u32>;
#endif
#elif VECTOR_B
@group(0) @binding(2) var<storage, read> b: array<vec4f>;
#else
@group(0) @binding(2) var<storage, read> b: array<f32>;
#endif
#if BIAS
@group(0) @binding(3) var<storage, read> bias: array<f32>;
#endif

const STEPS = vec4u(0u, 1u, 2u, 3u);

// ---- a ----

#if VECTOR_A
fn a_at(index: u32) -> f32 {
  return a[index / 4u][index % 4u];
}
fn a_run(index: u32) -> vec4f {
  return a[index / 4u];
}
#else
fn a_at(index: u32) -> f32 {
  return a[index];
}
fn a_run(index: u32) -> vec4f {
  return vec4f(a[index], a[index + 1u], a[index + 2u], a[index + 3u]);
}
#endif

// Where k = 0 of rows row..row+3 lies.
fn a_places(row: u32) -> vec4u {
#if LAYOUT == tn
#if VECTOR_A
  return p.a_offset + min(row, p.m - 4u) + STEPS;
#else
  return p.a_offset + min(row + STEPS, vec4u(p.m - 1u));
#endif
#else
  return p.a_offset + min(row + STEPS, vec4u(p.m - 1u)) * p.lda;
#endif
}

// Element k of the four rows.
fn a_across(places: vec4u, k: u32) -> vec4f {
#if LAYOUT == tn
  let at = places + k * p.lda;
#if VECTOR_A
  return a_run(at.x);
#else
  return vec4f(a_at(at.x), a_at(at.y), a_at(at.z), a_at(at.w));
#endif
#else
  let at = places + k;
  return vec4f(a_at(at.x), a_at(at.y), a_at(at.z), a_at(at.w));
#endif
}

// Elements k..k+3 of the four rows: column i of the matrix has k + i.
fn a_block(places: vec4u, k: u32) -> mat4x4f {
#if LAYOUT == tn
  return mat4x4f(a_across(places, k), a_across(places, k + 1u), a_across(places, k + 2u), a_across(places, k + 3u));
#else
  let at = places + k;
  return transpose(mat4x4f(a_run(at.x), a_run(at.y), a_run(at.z), a_run(at.w)));
#endif
}

// ---- b ----

#if VECTOR_B
#if B_TYPE == bf16
fn b_run(index: u32) -> vec4f {
  return widen4(b[index / 4u]);
}
fn b_at(index: u32) -> f32 {
  return widen(b[index / 4u][index / 2u % 2u], index);
}
#else
fn b_run(index: u32) -> vec4f {
  return vec4f(b[index / 4u]);
}
fn b_at(index: u32) -> f32 {
  return f32(b[index / 4u][index % 4u]);
}
#endif
#else
fn b_at(index: u32) -> f32 {
#if B_TYPE == bf16
  return widen(b[index / 2u], index);
#else
  return f32(b[index]);
#endif
}
fn b_run(index: u32) -> vec4f {
  return vec4f(b_at(index), b_at(index + 1u), b_at(index + 2u), b_at(index + 3u));
}
#endif

// Where k = 0 of columns column..column+3 lies.
fn b_places(column: u32) -> vec4u {
#if LAYOUT == nt
  return p.b_offset + min(column + STEPS, vec4u(p.n - 1u)) * p.ldb;
#else
#if VECTOR_B
  return p.b_offset + min(column, p.n - 4u) + STEPS;
#else
  return p.b_offset + min(column + STEPS, vec4u(p.n - 1u));
#endif
#endif
}

// Element k of the four columns.
fn b_across(places: vec4u, k: u32) -> vec4f {
#if LAYOUT == nt
  let at = places + k;
  return vec4f(b_at(at.x), b_at(at.y), b_at(at.z), b_at(at.w));
#else
  let at = places + k * p.ldb;
#if VECTOR_B
  return b_run(at.x);
#else
  return vec4f(b_at(at.x), b_at(at.y), b_at(at.z), b_at(at.w));
#endif
#endif
}

// Elements k..k+3 of the four columns: column i of the matrix has k + i.
fn b_block(places: vec4u, k: u32) -> mat4x4f {
#if LAYOUT == nt
  let at = places + k;
  return transpose(mat4x4f(b_run(at.x), b_run(at.y), b_run(at.z), b_run(at.w)));
#else
  return mat4x4f(b_across(places, k), b_across(places, k + 1u), b_across(places, k + 2u), b_across(places, k + 3u));
#endif
}

// ---- Chains ----

// Four steps of the chains of one row and four columns.
fn step4(chain: vec4f, a0: f32, a1: f32, a2: f32, a3: f32, b4: mat4x4f) -> vec4f {
  return fma(vec4f(a3), b4[3], fma(vec4f(a2), b4[2], fma(vec4f(a1), b4[1], fma(vec4f(a0), b4[0], chain))));
}

#if VECTOR_OUT
fn start4(row: u32, column: u32) -> vec4f {
  var values = vec4f(0.0);
#if ACCUMULATE
  if (row < p.m && column < p.n) {
    values = out[(p.out_offset + row * p.ldc + column) / 4u];
  }
#endif
#if BIAS
  if (row < p.m && column < p.n) {
    values += vec4f(bias[column], bias[column + 1u], bias[column + 2u], bias[column + 3u]);
  }
#endif
  return values;
}

fn finish4(row: u32, column: u32, values: vec4f) {
  if (row < p.m && column < p.n) {
    out[(p.out_offset + row * p.ldc + column) / 4u] = values;
  }
}
#else
fn start(row: u32, column: u32) -> f32 {
  var value = 0.0;
#if ACCUMULATE
  if (row < p.m && column < p.n) {
    value = out[p.out_offset + row * p.ldc + column];
  }
#endif
#if BIAS
  if (row < p.m && column < p.n) {
    value += bias[column];
  }
#endif
  return value;
}

fn start4(row: u32, column: u32) -> vec4f {
  return vec4f(start(row, column), start(row, column + 1u), start(row, column + 2u), start(row, column + 3u));
}

fn finish(row: u32, column: u32, value: f32) {
  if (row < p.m && column < p.n) {
    out[p.out_offset + row * p.ldc + column] = value;
  }
}

fn finish4(row: u32, column: u32, values: vec4f) {
  finish(row, column, values.x);
  finish(row, column + 1u, values.y);
  finish(row, column + 2u, values.z);
  finish(row, column + 3u, values.w);
}
#endif

// ---- Blocks of 4 x 4 chains ----

// One step of the chains of a block: the columns of the matrix are its rows.
fn step(chains: mat4x4f, a1: vec4f, b1: vec4f) -> mat4x4f {
  return mat4x4f(
    fma(vec4f(a1.x), b1, chains[0]),
    fma(vec4f(a1.y), b1, chains[1]),
    fma(vec4f(a1.z), b1, chains[2]),
    fma(vec4f(a1.w), b1, chains[3]),
  );
}

fn start_block(row: u32, column: u32) -> mat4x4f {
  return mat4x4f(start4(row, column), start4(row + 1u, column), start4(row + 2u, column), start4(row + 3u, column));
}

fn finish_block(row: u32, column: u32, chains: mat4x4f) {
  finish4(row, column, chains[0]);
  finish4(row + 1u, column, chains[1]);
  finish4(row + 2u, column, chains[2]);
  finish4(row + 3u, column, chains[3]);
}
