// Elementwise kernels: a thread takes four elements that lie a workgroup apart, so that neighbours read neighbours.
requires immediate_address_space;

const WORKGROUP = 64u;
const PER_THREAD = 4u;

// First element of this thread; the next three are WORKGROUP apart. `length` guards each.
fn first_element(group: vec3u, groups: vec3u, thread: u32) -> u32 {
  return (group.y * groups.x + group.x) * WORKGROUP * PER_THREAD + thread;
}
