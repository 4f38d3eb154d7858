/** A process that finds one device for the supervisor, and ends. */
import { failure } from "../errors.ts";
import { connectToSupervisor } from "./children.ts";
import { resolveDevice } from "./open-device.ts";
import type { FromProbe, ToProbe } from "./run-devices.ts";

const send = connectToSupervisor<ToProbe, FromProbe>((message) => {
  if (message.type === "stop") process.exit(0);
  resolveDevice(message.section, message.option).then(
    (device) => send({ device }),
    (error: unknown) => send(failure(error)),
  );
});
