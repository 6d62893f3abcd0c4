#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace sluice {

/// What this machine computes with, for people.
struct MachineInfo {
  struct Implementation {
    std::string dtype;  ///< of activations: "float32"
    std::string name;   ///< who would run a recurrent layer on the CPU: "avx512"
  };
  struct Gpu {
    std::string device;      ///< "cuda:0"
    std::string model;       ///< "NVIDIA H200"
    std::string capability;  ///< "9.0"
    std::size_t memory_bytes = 0, free_bytes = 0;
    std::string missing;  ///< why it can't be used; empty if it can
  };
  struct Library {
    std::string name;           ///< "cuBLAS"
    std::string version, path;  ///< empty if it is not available
    std::string missing;        ///< then the sentence that a run would end with
  };

  std::string cpu;  ///< model
  int threads = 0;
  std::size_t memory_bytes = 0, free_bytes = 0;
  std::vector<Implementation> implementations;

  std::string driver;        ///< of NVIDIA, "580.95.05"; empty if there is none
  std::string driver_cuda;   ///< the newest CUDA that it runs: "13.0"
  std::string cuda_runtime;  ///< that Sluice was built with; empty without its CUDA part
  std::string kernels_for;   ///< compute capabilities: "8.0, 9.0a, 10.0, PTX 8.0"
  std::vector<Gpu> gpus;
  std::string gpus_missing;  ///< why there is no GPU; empty if there is one
  std::vector<Library> libraries;
};

/// Looks around; opens every GPU and every library to do so.
MachineInfo describe_machine();

}  // namespace sluice
