import type { Device } from "../../device.ts";
import type { Gpu } from "../gpu.ts";

export function rope(_gpu: Gpu, _x: Parameters<Device["rope"]>[0]): void {
  throw new Error("rope");
}
