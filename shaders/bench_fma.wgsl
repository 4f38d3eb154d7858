// Chains of fused multiply-adds in registers, eight vectors wide: how fast arithmetic goes when no memory is waited for.
// A thread computes 8 chains of vec4, `rounds` steps each: 64 x rounds floating-point operations.
requires immediate_address_space;

struct Params {
  rounds: u32,
  // Not known to the compiler, so that it cannot fold the chains.
  factor: f32,
  summand: f32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read_write> out: array<vec4f>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let factor = vec4f(p.factor);
  let summand = vec4f(p.summand);
  var a = vec4f(f32(id.x));
  var b = a + 1.0;
  var c = a + 2.0;
  var d = a + 3.0;
  var e = a + 4.0;
  var f = a + 5.0;
  var g = a + 6.0;
  var h = a + 7.0;
  for (var i = 0u; i < p.rounds; i++) {
    a = fma(a, factor, summand);
    b = fma(b, factor, summand);
    c = fma(c, factor, summand);
    d = fma(d, factor, summand);
    e = fma(e, factor, summand);
    f = fma(f, factor, summand);
    g = fma(g, factor, summand);
    h = fma(h, factor, summand);
  }
  // Written, so that nothing is dropped as unused.
  out[id.x] = ((a + b) + (c + d)) + ((e + f) + (g + h));
}
