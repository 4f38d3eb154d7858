/**
 * TensorBoard's event files: TFRecords (a length and two masked CRC-32C around each record) of the protobuf messages Event,
 * Summary and SessionLog, of which this writes the few fields that scalars need.
 * Sources: tensorflow/core/lib/io/record_writer.h, tensorflow/core/util/event.proto, framework/summary.proto.
 */

/** The bytes of a record that says `data`. */
export function tfRecord(data: Uint8Array): Buffer {
  const out = Buffer.alloc(12 + data.length + 4);
  out.writeBigUInt64LE(BigInt(data.length), 0);
  out.writeUInt32LE(maskedCrc(out.subarray(0, 8)), 8);
  out.set(data, 12);
  out.writeUInt32LE(maskedCrc(data), 12 + data.length);
  return out;
}

/** The first record of a file. @param wallTime in seconds since 1970. */
export function versionEvent(wallTime: number): Buffer {
  return tfRecord(Buffer.concat([double(1, wallTime), text(3, "brain.Event:2")]));
}

/** A session begins at `step`: what was written of it and later steps before counts no more. */
export function startEvent(wallTime: number, step: number): Buffer {
  const start = varintField(1, 1);
  return tfRecord(Buffer.concat([double(1, wallTime), varintField(2, step), bytes(7, start)]));
}

/** Scalars of a step, rounded to f32. */
export function scalarEvent(wallTime: number, step: number, scalars: ReadonlyMap<string, number>): Buffer {
  const values = Array.from(scalars, ([tag, value]) => bytes(1, Buffer.concat([text(1, tag), float(2, value)])));
  return tfRecord(Buffer.concat([double(1, wallTime), varintField(2, step), bytes(5, Buffer.concat(values))]));
}

/** Wire types of protobuf. */
const wire = { varint: 0, fixed64: 1, length: 2, fixed32: 5 } as const;

function tag(field: number, type: keyof typeof wire): Buffer {
  return varint((field << 3) | wire[type]);
}

/** A whole number ≥ 0. */
function varint(value: number): Buffer {
  const out: number[] = [];
  let rest = value;
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) out.push((rest % 0x80) | 0x80);
  out.push(rest);
  return Buffer.from(out);
}

/** proto3 leaves a 0 out. */
function varintField(field: number, value: number): Buffer {
  return value === 0 ? Buffer.alloc(0) : Buffer.concat([tag(field, "varint"), varint(value)]);
}

function double(field: number, value: number): Buffer {
  const out = Buffer.alloc(8);
  out.writeDoubleLE(value);
  return Buffer.concat([tag(field, "fixed64"), out]);
}

/** A member of a oneof: written also where it is 0. */
function float(field: number, value: number): Buffer {
  const out = Buffer.alloc(4);
  out.writeFloatLE(value);
  return Buffer.concat([tag(field, "fixed32"), out]);
}

function text(field: number, value: string): Buffer {
  return bytes(field, Buffer.from(value));
}

function bytes(field: number, value: Buffer): Buffer {
  return Buffer.concat([tag(field, "length"), varint(value.length), value]);
}

/** CRC-32C (Castagnoli, reflected polynomial 0x82f63b78) by table. */
const table = Uint32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0x82f63b78 : crc >>> 1;
  return crc;
});

export function crc32c(data: Uint8Array): number {
  let crc = 0xffff_ffff;
  for (const byte of data) crc = table[(crc ^ byte) & 0xff]! ^ (crc >>> 8);
  return (crc ^ 0xffff_ffff) >>> 0;
}

/** Rotated by 15 bits and shifted: a CRC of data that holds CRCs is weak otherwise. */
function maskedCrc(data: Uint8Array): number {
  const crc = crc32c(data);
  return (((crc >>> 15) | (crc << 17)) + 0xa282_ead8) >>> 0;
}
