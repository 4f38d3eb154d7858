/** `--device`, on every command that computes with a model. */
import { type Command, Option } from "commander";

export function addDevice(command: Command): Command {
  return command.addOption(
    new Option(
      "--device <device>",
      "where to compute; auto: webgpu where there is a hardware adapter, else native",
    ).choices(["auto", "native", "webgpu"]),
  );
}

/** The `--set` entries of a command whose config has a `device`: the flag counts like one, and wins over the file. */
export function setsWithDevice(options: { set?: string[]; device?: string }): string[] | undefined {
  return options.device === undefined ? options.set : [...(options.set ?? []), `device=${options.device}`];
}
