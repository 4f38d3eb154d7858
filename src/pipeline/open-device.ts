/** The device that a config's `device` names. `auto` takes a hardware WebGPU adapter once that device exists. */
import { NativeDevice } from "../device/native.ts";

export function openDevice(_choice: "auto" | "native", threads: number): NativeDevice {
  return new NativeDevice({ threads });
}
