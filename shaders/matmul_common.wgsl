// What the matrix products share: operands, blocks of 4x4 of them, and where an element's chain begins.
//
//   out[m, n] = op(a) op(b)      nn: a[m, k] b[k, n]    nt: a[m, k] b[n, k]    tn: a[k, m] b[k, n]
//
// Every element is one chain of fma() over k in ascending order, so all kernels and tiles give the same bits. Leading
// dimensions and offsets are in elements. VECTOR: the axis of a and b that is contiguous, its leading dimension and the
// offset are multiples of four, so that operands are read four at a time. Blocks at the edge repeat the last row or
// column (nothing is read outside the operands), and `finish` drops what they add.
requires immediate_address_space;

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
  bias_offset: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read_write> out: array<f32>;
#if VECTOR
@group(0) @binding(1) var<storage, read> a: array<vec4f>;
@group(0) @binding(2) var<storage, read> b: array<vec4f>;
#else
@group(0) @binding(1) var<storage, read> a: array<f32>;
@group(0) @binding(2) var<storage, read> b: array<f32>;
#endif
#if BIAS
@group(0) @binding(3) var<storage, read> bias: array<f32>;
#endif

// Four neighbours of a row of memory from `index` on.
#if VECTOR
fn a_run(index: u32) -> vec4f {
  return a[index / 4u];
}
fn b_run(index: u32) -> vec4f {
  return b[index / 4u];
}
#endif

fn a_index(row: u32, k: u32) -> u32 {
#if LAYOUT == tn
  return p.a_offset + k * p.lda + row;
#else
  return p.a_offset + row * p.lda + k;
#endif
}

fn b_index(k: u32, column: u32) -> u32 {
#if LAYOUT == nt
  return p.b_offset + column * p.ldb + k;
#else
  return p.b_offset + k * p.ldb + column;
#endif
}

fn a_at(row: u32, k: u32) -> f32 {
  let index = a_index(min(row, p.m - 1u), k);
#if VECTOR
  return a[index / 4u][index % 4u];
#else
  return a[index];
#endif
}

fn b_at(k: u32, column: u32) -> f32 {
  let index = b_index(k, min(column, p.n - 1u));
#if VECTOR
  return b[index / 4u][index % 4u];
#else
  return b[index];
#endif
}

// a[row][k..k+3]
fn a_along_k(row: u32, k: u32) -> vec4f {
#if LAYOUT != tn
#if VECTOR
  return a_run(a_index(min(row, p.m - 1u), k));
#else
  return vec4f(a_at(row, k), a_at(row, k + 1u), a_at(row, k + 2u), a_at(row, k + 3u));
#endif
#else
  return vec4f(a_at(row, k), a_at(row, k + 1u), a_at(row, k + 2u), a_at(row, k + 3u));
#endif
}

// a[row..row+3][k..k+3], one column of the matrix for each row of a.
fn a_block(row: u32, k: u32) -> mat4x4f {
#if LAYOUT == tn
  return transpose(mat4x4f(a_across(row, k), a_across(row, k + 1u), a_across(row, k + 2u), a_across(row, k + 3u)));
#else
  return mat4x4f(a_along_k(row, k), a_along_k(row + 1u, k), a_along_k(row + 2u, k), a_along_k(row + 3u, k));
#endif
}

// a[row..row+3][k]
fn a_across(row: u32, k: u32) -> vec4f {
#if LAYOUT == tn
#if VECTOR
  return a_run(a_index(min(row, p.m - 4u), k));
#else
  return vec4f(a_at(row, k), a_at(row + 1u, k), a_at(row + 2u, k), a_at(row + 3u, k));
#endif
#else
  return vec4f(a_at(row, k), a_at(row + 1u, k), a_at(row + 2u, k), a_at(row + 3u, k));
#endif
}

// b[k][column..column+3]
fn b_across(k: u32, column: u32) -> vec4f {
#if LAYOUT != nt
#if VECTOR
  return b_run(b_index(k, min(column, p.n - 4u)));
#else
  return vec4f(b_at(k, column), b_at(k, column + 1u), b_at(k, column + 2u), b_at(k, column + 3u));
#endif
#else
  return vec4f(b_at(k, column), b_at(k, column + 1u), b_at(k, column + 2u), b_at(k, column + 3u));
#endif
}

// b[k..k+3][column]
fn b_along_k(k: u32, column: u32) -> vec4f {
#if LAYOUT == nt
#if VECTOR
  return b_run(b_index(k, min(column, p.n - 1u)));
#else
  return vec4f(b_at(k, column), b_at(k + 1u, column), b_at(k + 2u, column), b_at(k + 3u, column));
#endif
#else
  return vec4f(b_at(k, column), b_at(k + 1u, column), b_at(k + 2u, column), b_at(k + 3u, column));
#endif
}

// b[k..k+3][column..column+3], one column of the matrix for each k.
fn b_block(k: u32, column: u32) -> mat4x4f {
#if LAYOUT == nt
  return transpose(mat4x4f(
    b_along_k(k, column), b_along_k(k, column + 1u), b_along_k(k, column + 2u), b_along_k(k, column + 3u),
  ));
#else
  return mat4x4f(b_across(k, column), b_across(k + 1u, column), b_across(k + 2u, column), b_across(k + 3u, column));
#endif
}

// Four steps of the chains of four neighbouring columns: a[k..k+3] of one row, and the block of b.
fn step4(chain: vec4f, a4: vec4f, b4: mat4x4f) -> vec4f {
  var next = fma(vec4f(a4.x), b4[0], chain);
  next = fma(vec4f(a4.y), b4[1], next);
  next = fma(vec4f(a4.z), b4[2], next);
  return fma(vec4f(a4.w), b4[3], next);
}

fn start(row: u32, column: u32) -> f32 {
  var value = 0.0;
#if START
  if (row < p.m && column < p.n) {
#if ACCUMULATE
    value = out[p.out_offset + row * p.ldc + column];
#endif
#if BIAS
    value += bias[p.bias_offset + column];
#endif
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
