// Philox 4x32-10 (Salmon, Moraes, Dror & Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3").

// High word of a 32 by 32 bit product, from halves of 16 bits.
fn multiply_high(a: u32, b: u32) -> u32 {
  let a0 = a & 0xffffu;
  let a1 = a >> 16u;
  let b0 = b & 0xffffu;
  let b1 = b >> 16u;
  let low = a1 * b0 + ((a0 * b0) >> 16u);
  let middle = a0 * b1 + (low & 0xffffu);
  return a1 * b1 + (low >> 16u) + (middle >> 16u);
}

fn philox(counter: vec4u, key: vec2u) -> vec4u {
  var c = counter;
  var k = key;
  for (var round = 0; round < 10; round++) {
    c = vec4u(
      multiply_high(0xCD9E8D57u, c.z) ^ c.y ^ k.x,
      0xCD9E8D57u * c.z,
      multiply_high(0xD2511F53u, c.x) ^ c.w ^ k.y,
      0xD2511F53u * c.x,
    );
    k += vec2u(0x9E3779B9u, 0xBB67AE85u);
  }
  return c;
}
