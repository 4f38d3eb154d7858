/**
 * Two sets of Dawn toggles. `safe`, the default and what tests use, keeps every check of the API and the bounds of every
 * access. `fast` drops them: for an adapter on which the conformance suite has passed. A run's record names the profile.
 */
export type ProfileName = "safe" | "fast";

export interface Profile {
  name: ProfileName;
  enabled: readonly string[];
  disabled: readonly string[];
}

// Dawn ignores a toggle that it does not know without a word, so names are kept in this one place; they were checked
// against the binary of the pinned package.
const common = {
  enabled: ["allow_unsafe_apis", "vulkan_enable_f16_on_nvidia", "use_vulkan_memory_model"],
  // Timestamps in nanoseconds instead of steps of 65,536: the tuner and the benchmark need them.
  disabled: ["timestamp_quantization"],
};

const profiles: Record<ProfileName, Profile> = {
  safe: { name: "safe", ...common },
  fast: {
    name: "fast",
    enabled: [
      ...common.enabled,
      "skip_validation",
      "disable_robustness",
      "disable_workgroup_init",
      "disable_polyfills_on_integer_div_and_mod",
    ],
    disabled: common.disabled,
  },
};

export const profileNames = Object.keys(profiles) as ProfileName[];

export function profileOf(name: ProfileName): Profile {
  return profiles[name];
}
