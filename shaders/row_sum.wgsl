// Sum over the 64 threads of a workgroup, in one fixed tree. Every thread gets it.
const THREADS = 64u;

var<workgroup> row_partials: array<f32, THREADS>;

fn row_sum(thread: u32, partial: f32) -> f32 {
  row_partials[thread] = partial;
  for (var half = THREADS / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (thread < half) {
      row_partials[thread] += row_partials[thread + half];
    }
  }
  workgroupBarrier();
  return row_partials[0];
}

fn lane_sum(lane: {{LANE}}) -> f32 {
#if LANE == vec4f
  return (lane.x + lane.z) + (lane.y + lane.w);
#else
  return lane;
#endif
}
