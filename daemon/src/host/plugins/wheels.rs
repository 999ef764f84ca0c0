//! The pinned wheels of the plugins that `traind plugins install` fetches. A plugin's own wheel comes
//! first and gives its version.

use super::{Build, Contents, Wheel};

pub(super) static CPU: &[Wheel] = &[Wheel {
    package: "xla-cpu-pjrt",
    version: "0.0.1",
    builds: &[
        Build {
            arch: "x86_64",
            tag: "manylinux_2_27_x86_64",
            sha256: "55837b6b7b47daa717f2d9a5a03563ea0ceaa338d06a81a1e2d3f060d960decc",
        },
        Build {
            arch: "aarch64",
            tag: "manylinux_2_27_aarch64",
            sha256: "8f613be6e891858f40d64f9799319502fff42689661944fc18a6ffd8210b30c9",
        },
    ],
    contents: Contents::Members(&[
        "xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so",
        "xla_plugins/xla_cpu_pjrt/include/pjrt_c_api.h",
    ]),
}];

/// The library of the MPI ABI with the networks' libraries, and `mpiexec`.
pub(super) static MPI: &[Wheel] = &[Wheel {
    package: "mpich",
    version: "5.0.2",
    builds: &[
        Build {
            arch: "x86_64",
            tag: "manylinux_2_28_x86_64",
            sha256: "8fed465ebff269ea2ebac179a25de02671ddf8df476e0f115be089015015cfd4",
        },
        Build {
            arch: "aarch64",
            tag: "manylinux_2_28_aarch64",
            sha256: "992ae6ebb0da97d49d7a67000ae8112da9a3825da1bb1e6f1d196428a0410f2d",
        },
    ],
    contents: Contents::Below("mpich-5.0.2.data/data"),
}];

/// The plugin, the libraries that it loads from `nvidia` beside its folder, and `ptxas` with libdevice,
/// which compile. Versions are the newest of CUDA 13 that the plugin accepts.
pub(super) static CUDA: &[Wheel] = &[
    Wheel {
        package: "jax-cuda13-pjrt",
        version: "0.12.0.1",
        builds: &[
            Build {
                arch: "x86_64",
                tag: "manylinux_2_27_x86_64",
                sha256: "5899bb6177eda86ea532afb9a26794f2bdd04966f6a01f9028266b16c2b6cf90",
            },
            Build {
                arch: "aarch64",
                tag: "manylinux_2_27_aarch64",
                sha256: "40758d042df8c06991b6a1a8016b56e9cefb1ed4c677c062125c3eb71c3dab97",
            },
        ],
        contents: Contents::All,
    },
    Wheel {
        package: "nvidia-cublas",
        version: "13.10.0.20",
        builds: &[
            Build {
                arch: "x86_64",
                tag: "manylinux1_x86_64.manylinux_2_5_x86_64",
                sha256: "dcc6d63884c53d07e267ce7e6feac17b2538cebaafec5db865736c3e28e4dc84",
            },
            Build {
                arch: "aarch64",
                tag: "manylinux2014_aarch64.manylinux_2_17_aarch64",
                sha256: "c5f3418c0a845232a8cabc58f6fa52cfae7d8bd3680d94c3907aca710fd48d70",
            },
        ],
        contents: Contents::All,
    },
    Wheel {
        package: "nvidia-cuda-cupti",
        version: "13.5.25",
        builds: &[
            Build {
                arch: "x86_64",
                tag: "manylinux_2_25_x86_64",
                sha256: "9dcca41c12a734192b14e7128ae116bc9ce1b9da686e2ebf48ae7a4415f76650",
            },
            Build {
                arch: "aarch64",
                tag: "manylinux_2_25_aarch64",
                sha256: "d7e4d908315461b6ecbdadfd3c403cc796ed218b293ad117568c947e811cff28",
            },
        ],
        contents: Contents::All,
    },
    Wheel {
        package: "nvidia-cuda-nvcc",
        version: "13.5.37",
        builds: &[
            Build {
                arch: "x86_64",
                tag: "manylinux2014_x86_64.manylinux_2_17_x86_64",
                sha256: "f5c4f7ead5d964fb4af42bbf1e6d3ec3c1e6e9d83b53749f691d387e7fcaa3a7",
            },
            Build {
                arch: "aarch64",
                tag: "manylinux2014_aarch64.manylinux_2_17_aarch64",
                sha256: "588eda18eb5076ae859fe272844b526459228af22df0b117f54eec3aa82bc9c8",
            },
        ],
        contents: Contents::All,
    },
    Wheel {
        package: "nvidia-cuda-nvrtc",
        version: "13.5.37",
        builds: &[
            Build {
                arch: "x86_64",
                tag: "manylinux2010_x86_64.manylinux_2_12_x86_64",
                sha256: "86b4d68058807988b7d9af5b44917a0601e9c337f35ccd657bfb3c759ff8d8bc",
            },
            Build {
                arch: "aarch64",
                tag: "manylinux2014_aarch64.manylinux_2_17_aarch64",
                sha256: "36e4fa2a8ada293f5693d308e531c196ab6f91cf7a0ff479bf96a537d43a6096",
            },
        ],
        contents: Contents::All,
    },
    Wheel {
        package: "nvidia-cuda-runtime",
        version: "13.5.37",
        builds: &[
            Build {
                arch: "x86_64",
                tag: "manylinux2014_x86_64.manylinux_2_17_x86_64",
                sha256: "df2b79a8852f10d1fef8c848489c49eebb5754051bf870202a862831412b179d",
            },
            Build {
                arch: "aarch64",
                tag: "manylinux2014_aarch64.manylinux_2_17_aarch64",
                sha256: "de2dc5a7367974228b0a69588a9acc9340d3768bef1bf38bf0801eb08497cd2d",
            },
        ],
        contents: Contents::All,
    },
    Wheel {
        package: "nvidia-cudnn-cu13",
        version: "9.28.0.42",
        builds: &[
            Build {
                arch: "x86_64",
                tag: "manylinux_2_27_x86_64",
                sha256: "7358353c75bb121a58e5f7712fe6d588883dc1df8ba00f428237e44e97543c4d",
            },
            Build {
                arch: "aarch64",
                tag: "manylinux_2_27_aarch64",
                sha256: "97c70c7fe0ea32e97fcd0b40157915d27f0d1e238479e537e81b12ed3c8f17ae",
            },
        ],
        contents: Contents::All,
    },
    Wheel {
        package: "nvidia-cufft",
        version: "12.5.0.14",
        builds: &[
            Build {
                arch: "x86_64",
                tag: "manylinux2014_x86_64.manylinux_2_17_x86_64",
                sha256: "b8be26837a5abad2b5b74f3e92dd29f622a42934b355be0961a48712cbba23ad",
            },
            Build {
                arch: "aarch64",
                tag: "manylinux2014_aarch64.manylinux_2_17_aarch64",
                sha256: "091cde103312d6e09366122fe3f67092dcfd94cc9785029d695d6bcffaa76fdf",
            },
        ],
        contents: Contents::All,
    },
    Wheel {
        package: "nvidia-cusolver",
        version: "12.4.1.2",
        builds: &[
            Build {
                arch: "x86_64",
                tag: "manylinux_2_27_x86_64",
                sha256: "b3b8e02fd2f2df869369af075dc3a179d43f6f7b85e94632a7dce556697be044",
            },
            Build {
                arch: "aarch64",
                tag: "manylinux_2_27_aarch64",
                sha256: "1f54c8e0d5b1ebd183b4c5a79f0709fa90241e8254da381ca5b969ee97c8de32",
            },
        ],
        contents: Contents::All,
    },
    Wheel {
        package: "nvidia-cusparse",
        version: "12.9.4.2",
        builds: &[
            Build {
                arch: "x86_64",
                tag: "manylinux2014_x86_64.manylinux_2_17_x86_64",
                sha256: "072667e58c851a318738f5527a12eb225cbf058803f2ea451c722d8cf8edddec",
            },
            Build {
                arch: "aarch64",
                tag: "manylinux2014_aarch64.manylinux_2_17_aarch64",
                sha256: "e2ce97f185c9c4b285e4a8fbf02cb96dd1b8dd66736ebe2f0a8da5f6012a4fb7",
            },
        ],
        contents: Contents::All,
    },
    Wheel {
        package: "nvidia-nccl-cu13",
        version: "2.32.3",
        builds: &[
            Build {
                arch: "x86_64",
                tag: "manylinux_2_27_x86_64",
                sha256: "1459723080ac889d73a26edfa3e04383a7928ab31ac8f0ec43b3ea9548b04ff3",
            },
            Build {
                arch: "aarch64",
                tag: "manylinux_2_27_aarch64",
                sha256: "a5bee92b2f4af218c109f8d221c3c9adcc752b94ae0ffcb0ed5abf9341a7724c",
            },
        ],
        contents: Contents::All,
    },
    Wheel {
        package: "nvidia-nvjitlink",
        version: "13.5.37",
        builds: &[
            Build {
                arch: "x86_64",
                tag: "manylinux2010_x86_64.manylinux_2_12_x86_64",
                sha256: "280d7cb9649704145f074b8dbde500de04ce02d0872e066e20a83c17bcaa93eb",
            },
            Build {
                arch: "aarch64",
                tag: "manylinux2014_aarch64.manylinux_2_17_aarch64",
                sha256: "893f6f9a55b2720ed94913b5ba3332e972da8c78dfa2863d0244403dbd528ffc",
            },
        ],
        contents: Contents::All,
    },
    Wheel {
        package: "nvidia-nvvm",
        version: "13.5.37",
        builds: &[
            Build {
                arch: "x86_64",
                tag: "manylinux2010_x86_64.manylinux_2_12_x86_64",
                sha256: "c41bfa362e407405163f103c2229f0765f8cc2ed7d148b754dc77f228bf7e070",
            },
            Build {
                arch: "aarch64",
                tag: "manylinux2014_aarch64.manylinux_2_17_aarch64",
                sha256: "b659bd3115b7ac7ec8931e67d0e2c0dd09cd35b08a6a7372df6f8f22c67da80a",
            },
        ],
        contents: Contents::All,
    },
];
