// What the kernels of the fused head share: z = logit / temperature in chunks of CHUNK vocabulary entries, each chunk
// reduced by one workgroup of THREADS in a fixed order.
requires immediate_address_space;

const CHUNK = {{CHUNK}}u;
const THREADS = 64u;
// Stands in for -infinity, which WGSL may assume away.
const LOWEST = -3.0e38;
// e^FLOOR is 0 in float32.
const FLOOR = -104.0;

// What a logit is multiplied by. Greedy decoding (temperature 0) is scored at temperature 1.
fn inverse_temperature(temperature: f32) -> f32 {
  return select(1.0 / temperature, 1.0, temperature == 0.0);
}

// z - shift, bounded so that its exponential is safe; one rounding, whatever the compiler contracts.
fn shifted(logit: f32, inverse: f32, shift: f32) -> f32 {
  return max(fma(logit, inverse, -shift), FLOOR);
}
