// The arithmetic of the gradient of attention (FlashAttention-2, Dao 2023, section 3.1), the same in every variant. The
// probabilities are computed again from the log-sum-exp that the forward pass kept:
//   p = e^(s - lse),  dS = scale p (dOut . v - D),  dQ_i = sum_j dS_ij k_j,  dK_j = sum_i dS_ij q_i,  dV_j = sum_i p_ij dOut_i
// Each sum is one chain: dQ over keys ascending; dK and dV over the heads of the group, within each over rows, ascending.

fn probability(score: vec4f, lse: vec4f, seen: vec4<bool>) -> vec4f {
  return select(vec4f(0.0), exp(min(score - lse, vec4f(1.0))), seen);
}

fn score_gradient(p: vec4f, d_p: vec4f, delta: vec4f, seen: vec4<bool>) -> vec4f {
  return select(vec4f(0.0), p * (d_p - delta) * params.scale, seen);
}
