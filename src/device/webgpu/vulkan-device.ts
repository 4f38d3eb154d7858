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
 * Hides all devices but one from this process, which must not have used Vulkan yet: the layer reads its variable once.
 * @throws AgentRLError DEVICE where it cannot: another system, another device before, no graphics card at the address.
 */
export function selectVulkanDevice(device: string, option: string): void {
  if (device === selected) return;
  const fail = (message: string, got: string, expected: string): never => {
    throw new AgentRLError("DEVICE", message, { where: `${option}: ${device}`, got, expected });
  };
  if (process.platform !== "linux") {
    fail("Adapters are told apart by address on Linux alone", process.platform, "part of an adapter's name");
  }
  if (selected !== undefined) fail("A process computes on one Vulkan device", selected, "one device a process");
  if (device.startsWith("pci:")) {
    const file = `/sys/bus/pci/devices/${device.slice("pci:".length)}/class`;
    const kind = existsSync(file) ? readFileSync(file, "utf8").trim() : "no device";
    // Class 03: VGA, 3D and other display controllers. For an address without one the layer would hide nothing.
    if (!kind.startsWith("0x03"))
      fail("There is no graphics card at this address", kind, "class 0x03…, as lspci -D lists");
  }
  process.env[variable] = `${device}!`;
  selected = device;
}
