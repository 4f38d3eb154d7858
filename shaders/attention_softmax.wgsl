// The arithmetic of one query of causal attention, the same in every variant and so the same to the bit: online softmax
// (Milakov & Gimelshein 2018; FlashAttention, Dao et al. 2022) over blocks of 32 keys from position 0, in quads of 4.
//   s_j = (scale q) . k_j                        one chain of fused multiply-adds over the head's dimensions
//   m' = max(m, max_j s_j),  c = e^(m - m')
//   p_j = e^(s_j - m'),  l = c l + sum_j p_j     the sum over quads ascending, of (p0 + p1) + (p2 + p3)
//   o = c o, then + p_j v_j for j ascending      one chain
// and at the end out = o / l, lse = m + log l. No product is left where a driver could fuse it with a sum of its own.

const QUADS = BLOCK / 4u;
// Below every score; no infinity, which WGSL may take for impossible.
const NO_SCORE = -1.0e38;
const LN_2 = 0.6931471805599453;

// Scores of four keys, of which x and k0 to k3 are the next four dimensions.
fn add_products(sum: vec4f, x: vec4f, k0: vec4f, k1: vec4f, k2: vec4f, k3: vec4f) -> vec4f {
  var s = fma(vec4f(x.x), vec4f(k0.x, k1.x, k2.x, k3.x), sum);
  s = fma(vec4f(x.y), vec4f(k0.y, k1.y, k2.y, k3.y), s);
  s = fma(vec4f(x.z), vec4f(k0.z, k1.z, k2.z, k3.z), s);
  return fma(vec4f(x.w), vec4f(k0.w, k1.w, k2.w, k3.w), s);
}

// Which keys of a quad are among the first `seen` of the block.
fn visible(quad: u32, seen: u32) -> vec4<bool> {
  return vec4u(4u * quad) + vec4u(0u, 1u, 2u, 3u) < vec4u(seen);
}

fn largest(s: vec4f) -> f32 {
  return max(max(s.x, s.y), max(s.z, s.w));
}

// c, exactly 1 where the maximum stays.
fn rescaling(before: f32, after: f32) -> f32 {
  if (before == after) {
    return 1.0;
  }
  return select(exp(before - after), 0.0, before == NO_SCORE);
}

fn quad_weights(s: vec4f, top: f32, quad: u32, seen: u32) -> vec4f {
  return select(vec4f(0.0), exp(min(s - vec4f(top), vec4f(0.0))), visible(quad, seen));
}

fn quad_sum(p: vec4f) -> f32 {
  return (p.x + p.y) + (p.z + p.w);
}

// o + p v over those of four keys that are among the first `seen` of the block.
fn add_values(o: vec4f, p: vec4f, v0: vec4f, v1: vec4f, v2: vec4f, v3: vec4f, quad: u32, seen: u32) -> vec4f {
  let first = 4u * quad;
  if (first >= seen) {
    return o;
  }
  var sum = fma(vec4f(p.x), v0, o);
  if (first + 4u <= seen) {
    return fma(vec4f(p.w), v3, fma(vec4f(p.z), v2, fma(vec4f(p.y), v1, sum)));
  }
  if (first + 1u < seen) {
    sum = fma(vec4f(p.y), v1, sum);
  }
  if (first + 2u < seen) {
    sum = fma(vec4f(p.z), v2, sum);
  }
  return sum;
}

fn log_sum_exp(top: f32, sum: f32) -> f32 {
  return fma(log2(sum), LN_2, top);
}
