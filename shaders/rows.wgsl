// Kernels that move rows: a row of `width` lanes, which are vectors of four where its dimension allows. Lanes of all rows
// are numbered through, and dealt to threads as elements are in elementwise.wgsl.
#include "elementwise.wgsl"

alias Lane = {{LANE}};

struct Place {
  row: u32,
  column: u32,
}

fn place_of(lane: u32, width: u32) -> Place {
  let row = lane / width;
  return Place(row, lane - row * width);
}
