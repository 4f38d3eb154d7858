// Turns package.json into that of the images: the optional packages of controller, workers and engines are installed, at
// the lock file's versions; those for development and for computing are not.
import { readFileSync, writeFileSync } from "node:fs";

const computing = ["webgpu", "node-gyp", "node-addon-api"];

const {
  devDependencies: _,
  peerDependencies,
  peerDependenciesMeta: __,
  ...rest
} = JSON.parse(readFileSync("package.json", "utf8"));
const dependencies = { ...rest.dependencies, ...peerDependencies };
for (const name of computing) delete dependencies[name];
writeFileSync("package.json", `${JSON.stringify({ ...rest, dependencies }, null, 2)}\n`);
