// What the kernels of sampling share. A row's tokens are ordered by falling z, lower id first on a tie; what top-k, top-p
// and min-p keep is a head of that order, given as a cut: (key of the last kept token's z, its id).
#include "head_common.wgsl"

const ALL_IDS = 0xffffffffu;
// Below the key of every finite number: everything is kept.
const NO_CUT = vec2u(0u, ALL_IDS);

// Orders as the number does: a > b exactly if key_of(a) > key_of(b), and -0 as 0.
fn key_of(z: f32) -> u32 {
  let bits = bitcast<u32>(select(z, 0.0, z == 0.0));
  return select(bits | 0x80000000u, ~bits, (bits >> 31u) == 1u);
}

fn number_of(key: u32) -> f32 {
  return bitcast<f32>(select(~key, key & 0x7fffffffu, (key >> 31u) == 1u));
}

fn is_kept(cut: vec2u, z: f32, id: u32) -> bool {
  let key = key_of(z);
  return key > cut.x || (key == cut.x && id <= cut.y);
}

// Probability of a token with this logit, in the whole vocabulary.
fn probability(logit: f32, inverse: f32, lse: f32) -> f32 {
  return exp(shifted(logit, inverse, lse));
}

// The same, or 0 where the cut drops the token.
fn kept_probability(cut: vec2u, logit: f32, inverse: f32, lse: f32, id: u32) -> f32 {
  return select(0.0, probability(logit, inverse, lse), is_kept(cut, logit * inverse, id));
}
