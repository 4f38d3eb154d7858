/**
 * One of several Vulkan devices, also where they bear the same name. Dawn's Node package takes an adapter by its name alone.
 * Mesa's device selection layer (an implicit layer, installed with Mesa's Vulkan drivers and at work for any vendor's)
 * hides all devices but one from a process. https://docs.mesa3d.org/envvars.html#envvar-MESA_VK_DEVICE_SELECT
 */
import { existsSync, readFileSync } from "node:fs";
import { AgentRLError } from "../../errors.ts";

const variable = "MESA_VK_DEVICE_SELECT";
/** A PCI address, or vendor and device, in hex: what the layer selects by. */
const notation = /^(?:pci:[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]|[0-9a-f]{1,8}:[0-9a-f]{1,8})$/;

let selected: string | undefined;

/** Whether an adapter is given as a Vulkan device, `pci:0000:41:00.0` or `10de:2335`, and not as part of a name. */
export function isVulkanDevice(adapter: string): boolean {
  return notation.test(adapter);
}

/**
 * Runs `use`, in which Vulkan comes into use for the first time in this process, with all devices hidden but one. They stay
 * hidden from this process, since the layer reads its variable once; processes that it starts see them all.
 * @throws AgentRLError DEVICE where it cannot: another system, another device before, no graphics card at the address.
 */
export async function onVulkanDevice<T>(device: string, option: string, use: () => Promise<T>): Promise<T> {
  assertSelectable(device, option);
  selected = device;
  const before = process.env[variable];
  process.env[variable] = `${device}!`;
  try {
    return await use();
  } finally {
    if (before === undefined) delete process.env[variable];
    else process.env[variable] = before;
  }
}

function assertSelectable(device: string, option: string): void {
  const fail = (message: string, got: string, expected: string): never => {
    throw new AgentRLError("DEVICE", message, { where: `${option}: ${device}`, got, expected });
  };
  if (process.platform !== "linux") {
    fail("Adapters are told apart by address on Linux alone", process.platform, "part of an adapter's name");
  }
  if (selected !== undefined && selected !== device) {
    fail("A process computes on one Vulkan device", selected, "one device a process");
  }
  if (!device.startsWith("pci:")) return;
  const file = `/sys/bus/pci/devices/${device.slice("pci:".length)}/class`;
  const kind = existsSync(file) ? readFileSync(file, "utf8").trim() : "no device";
  // Class 03: VGA, 3D and other display controllers. For an address without one the layer would hide nothing.
  if (!kind.startsWith("0x03"))
    fail("There is no graphics card at this address", kind, "class 0x03…, as lspci -D lists");
}
