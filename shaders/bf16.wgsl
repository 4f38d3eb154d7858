// bf16 numbers in pairs: the lower half of a word is the first. Each is the upper half of an f32.

// Number `index` of those whose word this is.
fn widen(word: u32, index: u32) -> f32 {
  return bitcast<f32>(select(word << 16u, word & 0xffff0000u, (index & 1u) == 1u));
}

fn widen4(words: vec2u) -> vec4f {
  return bitcast<vec4f>(vec4u(words.x << 16u, words.x & 0xffff0000u, words.y << 16u, words.y & 0xffff0000u));
}
