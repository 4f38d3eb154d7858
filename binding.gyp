{
  # CPU kernels are compiled once per instruction set, each in a namespace of its own, and chosen at load. The lists of
  # sources are in native/sources.json, which CMakeLists.txt reads too.
  "variables": {
    "sources_of": "node -p \"require('./native/sources.json')",
    "kernel_sources": ["<!@(<(sources_of).kernels.join(' ')\")"]
  },
  "target_defaults": {
    "include_dirs": ["<!(node -p \"require('node-addon-api').include_dir\")"],
    "defines": ["NAPI_VERSION=8", "NODE_ADDON_API_CPP_EXCEPTIONS"],
    "cflags": ["-O3", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off", "-fno-math-errno", "-Wall", "-Wextra"],
    "cflags_cc!": ["-std=gnu++17", "-fno-exceptions"],
    "cflags_cc": ["-std=c++20", "-fexceptions", "-Wno-psabi"],
    "xcode_settings": {
      "CLANG_CXX_LANGUAGE_STANDARD": "c++20",
      "GCC_ENABLE_CPP_EXCEPTIONS": "YES",
      "GCC_SYMBOLS_PRIVATE_EXTERN": "YES",
      "GCC_OPTIMIZATION_LEVEL": "3",
      "MACOSX_DEPLOYMENT_TARGET": "11.0",
      "OTHER_CFLAGS": ["-ffp-contract=off", "-fno-math-errno"]
    }
  },
  "targets": [
    {
      "target_name": "cpu_plain",
      "type": "static_library",
      "sources": ["<@(kernel_sources)"],
      "defines": ["AGENTRL_ISA=plain", "AGENTRL_ISA_PLAIN"]
    },
    {
      "target_name": "shm",
      "type": "static_library",
      "sources": ["<!@(<(sources_of).shm.join(' ')\")"]
    },
    {
      "target_name": "agentrl",
      "sources": [
        "<!@(<(sources_of).cpu.join(' ')\")",
        "<!@(<(sources_of).bindings.join(' ')\")"
      ],
      "dependencies": ["cpu_plain", "shm"],
      "conditions": [
        ["target_arch=='x64'", { "dependencies": ["cpu_avx2", "cpu_avx512"] }],
        ["target_arch=='arm64'", { "dependencies": ["cpu_neon"] }],
        ["OS=='linux'", { "libraries": ["-ldl", "-lrt", "-lpthread"] }]
      ]
    },
    # What `npm test` kills a thousand times: processes of its own, for which Node would start too slowly.
    {
      "target_name": "ring_stress",
      "type": "executable",
      "sources": ["native/shm/test/ring_stress_test.cc"],
      "dependencies": ["shm"],
      "conditions": [["OS=='linux'", { "libraries": ["-lrt", "-lpthread"] }]]
    },
    {
      "target_name": "kill_step",
      "type": "executable",
      "sources": ["native/shm/test/kill_step_test.cc"],
      "dependencies": ["shm"],
      "conditions": [["OS=='linux'", { "libraries": ["-lrt", "-lpthread"] }]]
    }
  ],
  "conditions": [
    ["target_arch=='x64'", {
      "targets": [
        {
          "target_name": "cpu_avx2",
          "type": "static_library",
          "sources": ["<@(kernel_sources)"],
          "defines": ["AGENTRL_ISA=avx2", "AGENTRL_ISA_AVX2"],
          "cflags": ["-mavx2", "-mfma", "-mf16c"],
          "xcode_settings": { "OTHER_CFLAGS": ["-mavx2", "-mfma", "-mf16c"] }
        },
        {
          "target_name": "cpu_avx512",
          "type": "static_library",
          "sources": ["<@(kernel_sources)"],
          "defines": ["AGENTRL_ISA=avx512", "AGENTRL_ISA_AVX512"],
          "cflags": ["-mavx512f", "-mavx512vl", "-mavx512bw", "-mavx512dq", "-mfma", "-mf16c", "-mprefer-vector-width=512"],
          "xcode_settings": { "OTHER_CFLAGS": ["-mavx512f", "-mavx512vl", "-mavx512bw", "-mavx512dq", "-mfma", "-mf16c"] }
        }
      ]
    }],
    ["target_arch=='arm64'", {
      "targets": [
        {
          "target_name": "cpu_neon",
          "type": "static_library",
          "sources": ["<@(kernel_sources)"],
          "defines": ["AGENTRL_ISA=neon", "AGENTRL_ISA_NEON"]
        }
      ]
    }]
  ]
}
