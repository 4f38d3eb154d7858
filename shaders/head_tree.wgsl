// Reductions over the THREADS of a workgroup in a fixed tree. All threads call; all get the result,
// with a barrier behind it.
var<workgroup> tree: array<vec2f, THREADS>;

fn tree_max(thread: u32, value: f32) -> f32 {
  tree[thread].x = value;
  for (var half = THREADS / 2u; half > 0u; half >>= 1u) {
    workgroupBarrier();
    if (thread < half) {
      tree[thread].x = max(tree[thread].x, tree[thread + half].x);
    }
  }
  return workgroupUniformLoad(&tree[0]).x;
}

fn tree_sum(thread: u32, value: vec2f) -> vec2f {
  tree[thread] = value;
  for (var half = THREADS / 2u; half > 0u; half >>= 1u) {
    workgroupBarrier();
    if (thread < half) {
      tree[thread] += tree[thread + half];
    }
  }
  return workgroupUniformLoad(&tree[0]);
}
