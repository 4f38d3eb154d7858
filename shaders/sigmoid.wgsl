// 1 / (1 + e^-x). Below -87 the exponential would leave the range in which WGSL bounds the error of a division; what
// the sigmoid is there is below any normal float32.
fn sigmoid(x: f32) -> f32 {
  return 1.0 / (1.0 + exp(min(-x, 87.0)));
}
