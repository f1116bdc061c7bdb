// SPDX-License-Identifier: Apache-2.0
// The main() of a contender in Python, whose packages stand in the lab's environment.
#pragma once

#include <lab/experiments/work_queue/workload.hpp>

#include <string>
#include <vector>

namespace lab::work_queue {

/// `script`: beside this file. `packages`: what it needs, for the result line.
inline int python_main(int argc, const char* const* argv, const std::string& script,
                       const std::vector<std::string>& packages, const std::string& unfinished) {
  const std::string python = GYRE_LAB_PYTHON;
  libraries versions;
  std::string missing;
  try {
    for (const std::string& each : packages) {
      versions.emplace_back(each, output_of({python, "-c",
                                             "import importlib.metadata as m, sys;"
                                             "print(m.version(sys.argv[1]))",
                                             each},
                                            each + " is not installed: run tools/setup"));
    }
  } catch (const cannot_run& reason) {
    missing = reason.what();
  }
  const auto probe = [&missing] {
    if (!missing.empty()) throw cannot_run(missing);
  };
  return contender_main(
      argc, argv,
      {.command = {python, GYRE_LAB_QUEUES + script}, .unfinished = unfinished, .probe = probe},
      versions);
}

}  // namespace lab::work_queue
