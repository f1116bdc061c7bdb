// SPDX-License-Identifier: Apache-2.0
// Variants of io_uring as in kernels of different ages: this kernel's features, the same without
// one feature, and no feature at all.
#pragma once

#include <gyre/io/uring_support.hpp>

#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace gyre::test {

struct uring_variant {
  std::string name;
  io::uring_features features;

  friend void PrintTo(const uring_variant& self, std::ostream* to) { *to << self.name; }
};

/// The variants to test; without io_uring, one variant without features, so that tests can skip.
inline std::vector<uring_variant> uring_variants() {
  using io::uring_features;
  const uring_features all = io::probe_uring().features;
  std::vector<uring_variant> variants{{"All", all}};
  const auto without = [&](const char* name, auto... members) {
    uring_features some = all;
    ((some.*members = false), ...);
    if (some != all) variants.push_back({name, some});
  };
  without("WithoutSingleIssuer", &uring_features::single_issuer,
          &uring_features::deferred_task_running);
  without("WithoutDeferring", &uring_features::deferred_task_running);
  without("WithoutCooperation", &uring_features::deferred_task_running,
          &uring_features::cooperative_task_running);
  without("WithoutMultishotAccept", &uring_features::multishot_accept);
  without("WithoutMultishotReceive", &uring_features::multishot_receive);
  without("WithoutMessages", &uring_features::message_from_anywhere);
  if (all != uring_features{}) variants.push_back({"Bare", {}});
  return variants;
}

}  // namespace gyre::test
